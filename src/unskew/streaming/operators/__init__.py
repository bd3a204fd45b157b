"""What a stateful operator does with the records of a slot: aggregates, windows, functions of the user."""
