"""Streaming: the live stateful operator."""
