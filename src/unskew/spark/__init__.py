"""Batch on Spark: measure, route, group, join and window, through PySpark's public API only.

Everything here runs on classic Spark and on Spark Connect alike: no JVM access, no RDD.
"""
