"""Benchmarks: each prints its bars and writes JSON beside its picture. Run as `python -m benchmarks.core`."""
