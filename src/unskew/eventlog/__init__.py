"""Spark's own event logs: which stages were skewed, what that cost, and why. No Spark is needed to read them."""
