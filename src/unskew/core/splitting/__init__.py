"""Planners that split one key over several slots, each for operators that can put the parts together again."""
