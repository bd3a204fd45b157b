"""Hot keys over several slots, for operators that allow it."""
