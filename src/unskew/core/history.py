"""Several histograms as one: those of partitions, or of recent windows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import reduce

import numpy as np

from unskew.core.histogram import Histogram


class History:
    """The load of recent windows as one histogram, so that one odd window does not decide.

    With `decay` every window counts `decay` times as much as the next newer one; with `window` only the
    newest `window` histograms count, all equally; both may be combined. `histogram` is their weighted mean, so
    its figures compare with those of a single window.

    >>> history = History(decay=0.5)
    >>> for n in (8, 2):
    ...     history.add(Histogram.from_counts({"a": n}, buckets=4))
    >>> history.histogram.top()
    [('a', 4.0)]
    >>> history
    History(decay 0.5, 2 windows added)
    """

    def __init__(self, *, window: int | None = None, decay: float | None = None) -> None:
        if window is not None and window < 1:
            raise ValueError(f"a history keeps at least one window, not {window}")
        if decay is not None and not 0.0 < decay <= 1.0:
            raise ValueError(f"decay is above 0 and at most 1, not {decay}")
        self.decay = 1.0 if decay is None else decay
        self.window = window
        self._recent: deque[Histogram] = deque(maxlen=window)
        self._sum: Histogram | None = None
        self._mass = 0.0
        self._added = 0

    def __repr__(self) -> str:
        limit = "" if self.window is None else f"newest {self.window} windows, "
        return f"History({limit}decay {self.decay:g}, {self._added} windows added)"

    def add(self, histogram: Histogram) -> None:
        """Add the newest window."""
        self._added += 1
        self._recent.append(histogram)
        if self.window is None:
            # the decayed sum stands for all older windows
            self._recent = deque([histogram])
            self._mass = self._mass * self.decay + 1.0
            self._sum = histogram if self._sum is None else self._sum.decayed(self.decay).merge(histogram)

    @property
    def windows(self) -> list[Histogram]:
        """The windows that are still kept individually, oldest first."""
        return list(self._recent)

    @property
    def histogram(self) -> Histogram:
        """The weighted mean of the windows."""
        if not self._recent:
            raise ValueError("the history is empty: add a histogram first")
        if self._sum is not None:
            return self._sum.decayed(1.0 / self._mass)
        factors = self.decay ** np.arange(len(self._recent))[::-1]
        scaled = [h.decayed(f / factors.sum()) for h, f in zip(self._recent, factors, strict=True)]
        return merge_all(scaled)


def merge_all(histograms: Iterable[Histogram]) -> Histogram:
    """Several histograms, of partitions or of windows, as one."""
    parts = list(histograms)
    if not parts:
        raise ValueError("there is no histogram to merge: pass at least one")
    return reduce(Histogram.merge, parts)
