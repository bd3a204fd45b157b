"""Measured, explicit key placement for skewed Apache Spark jobs and streams."""

__version__ = "0.1.0"
