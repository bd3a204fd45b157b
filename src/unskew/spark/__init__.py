"""Batch on Spark: measure, plan, route; group, join and window on slots.

Everything here runs on classic Spark and on Spark Connect alike: no JVM access, no RDD. What is not part of
PySpark's public API is in `versions.private`.
"""
