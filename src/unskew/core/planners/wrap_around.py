"""Wrap-around: hot keys are cut so that every slot gets the mean, with fewer cuts than slots."""

from __future__ import annotations

from unskew.core.histogram import Histogram
from unskew.core.planners.declaration import Planner
from unskew.core.routing import RoutingTable
from unskew.core.splitting.wrap_around import wrap_around


def plan(
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None = None,
    *,
    seed: int = 0,
    slack: float = 0.02,
) -> RoutingTable:
    """Tracked keys may be cut, buckets are placed whole; the slots of a cut key share it as the cuts say.

    Only for operators that can merge partial results. No slot exceeds the mean by more than the share `slack`, unless
    the buckets alone exceed it; with `slack=0` every slot gets exactly the mean. There are at most N − 1 cuts in all,
    far fewer with the default slack, which is about what a sample leaves uncertain. It ignores `previous` and `seed`.
    Costs O((K + H) log N) for K tracked keys.
    Paper: McNaughton, "Scheduling with deadlines and loss functions", Management Science 1959, theorem 3.1.

    >>> table = plan(Histogram.from_counts({"a": 5, "b": 2, "c": 1}, buckets=16), 2)
    >>> table.heavy, table.choice_shares.round(2).tolist()
    ({'a': (0, 1), 'b': 1, 'c': 1}, [0.8, 0.2, 1.0, 1.0])
    """
    if not 0.0 <= slack < 1.0:
        raise ValueError(
            f"slack is the share by which a slot may exceed the mean, from 0 to below 1, not {slack}"
        )
    pieces = wrap_around(histogram.tracked.weights, histogram.rest.weights, slots, slack)
    # a key without load has one piece without load
    shares = [[load if load > 0 else 1.0 for _, load in row] for row in pieces.cut]
    return RoutingTable.build(
        slots,
        pieces.whole,
        heavy=histogram.keys,
        heavy_slots=[[slot for slot, _ in row] for row in pieces.cut],
        hashes=histogram.hashes,
        key_type=histogram.key_type,
        heavy_shares=shares if pieces.cuts else None,
    )


PLANNER = Planner(
    "wrap-around",
    plan,
    summary="hot keys cut so that every slot gets the mean, with few cuts; needs an operator that merges",
    movement="no promise",
    paper='McNaughton, "Scheduling with deadlines and loss functions", Management Science 1959, theorem 3.1',
    splits=True,
)
