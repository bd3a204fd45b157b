"""What `unskew demo` runs: a skewed job and a live stream on local Spark, plain and with unskew."""
