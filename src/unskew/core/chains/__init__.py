"""Chained operators: keys that occur together are planned together, so that records stay on their server."""
