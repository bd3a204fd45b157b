"""Skewed keys for the demo."""

from __future__ import annotations

import numpy as np

from unskew.core.histogram import Floats


def zipf(keys: int, exponent: float) -> Floats:
    """Relative frequencies of `keys` keys, the k-th proportional to 1/k^exponent.

    >>> zipf(2, 1.0).tolist()
    [0.6666666666666666, 0.3333333333333333]
    """
    weights = 1.0 / np.arange(1, keys + 1, dtype=np.float64) ** exponent
    frequencies: Floats = weights / weights.sum()
    return frequencies
