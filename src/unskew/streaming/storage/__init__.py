"""What a live query keeps: files beside the checkpoint of Spark, and the state of each slot."""
