"""The aggregates of a stream, one line each.

The line makes an aggregate available in Python (`unskew.sum`), in job files (`total = { sum = "amount" }`), in
checkpoints and in the docs. The class behind it has the same `name`, which checkpoints hold: it never changes.
"""

from __future__ import annotations

from unskew.streaming.operators import exact_aggregates as _exact
from unskew.streaming.operators import sketch_aggregates as _sketch
from unskew.streaming.operators.aggregation import Aggregate

approx_distinct = _sketch.ApproxDistinct
count = _exact.Count
first = _exact.First
last = _exact.Last
max = _exact.Max
mean = _exact.Mean
min = _exact.Min
sum = _exact.Sum
top_k = _sketch.TopK
variance = _exact.Variance

AGGREGATES: dict[str, type[Aggregate]] = {
    name: value
    for name, value in globals().items()
    if isinstance(value, type) and issubclass(value, Aggregate) and value is not Aggregate
}
"""The aggregates by name."""
