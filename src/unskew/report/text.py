"""Text from the data, made safe and short enough to print: see `core/text.py`."""

from unskew.core.text import LONGEST, counted, inert, key_label

__all__ = ["LONGEST", "counted", "inert", "key_label"]
