"""What runs in a Spark task: packing records before the shuffle, then one step per slot."""
