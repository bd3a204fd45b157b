"""What a live query stores: files beside Spark's checkpoint, and the state of each slot."""
