"""What the user asks for: a stream, its operators, where its keys go, and a look at its state."""
