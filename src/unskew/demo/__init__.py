"""What the command unskew demo shows: a skewed job and a live stream on local Spark, plain and unskewed."""
