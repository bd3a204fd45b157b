"""From one routing table to the next while a stream runs: whether, when, how much at once, and safely."""
