"""Spark's own event logs: which stages were skewed, what that cost, and why. Reading them needs no Spark."""
