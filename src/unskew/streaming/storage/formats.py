"""The format of a checkpoint, which is a contract: every format there has been restarts for ever.

1   the first
2   handoffs have a digest of their rows and of the input they came from
3   runs and counts in the state store lack what their other columns tell, and are compressed harder
"""

FORMAT = 3
"""What this unskew writes. A change that an older reader would misread needs the next number."""

COMPACT = 3
"""The first format whose runs and counts are compact."""
