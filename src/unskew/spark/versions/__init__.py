"""What depends on the version of Spark: in `private`, everything that is not PySpark's public API."""
