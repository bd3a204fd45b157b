"""The live page of a streaming query, and its terminal view, out of the journal of the checkpoint."""
