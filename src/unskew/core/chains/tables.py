"""From the servers of an operator's keys to its table: buckets level the servers, slots share a server's load."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.core.chains.metis import NOWHERE, Index
from unskew.core.chains.servers import Servers
from unskew.core.histogram import Floats, Histogram, Measures, sum_by
from unskew.core.planners import keel
from unskew.core.planners.parts.workbench import NEW
from unskew.core.routing import RoutingTable, Slots
from unskew.core.scheduling import fill


@dataclass(frozen=True, eq=False)
class Operator:
    """One operator of a chain: what was measured of it, the rows of the keys to place, and its table until now."""

    number: int
    histogram: Histogram
    rows: Index
    servers: Servers
    before: RoutingTable | None

    def table(self, server: NDArray[np.int32], cap: float, target: float) -> RoutingTable:
        """The table that puts each of the keys on its server.

        A server gets no more than `cap` of the load, where buckets can see to it, and none of its slots more than
        1 + `target` of their mean, where `keel` can.
        """
        histogram, rows = self.histogram, self.rows
        old_keys, old_buckets = self._old_slots()
        rest = self._unplaced()
        carried = sum_by(server, histogram.tracked.weights[rows], self.servers.count)
        # nothing has to stay where it is in a first plan, so the servers can be levelled at no cost
        level = (cap if self.before is not None else 1.0 / self.servers.count) * histogram.total
        bucket_server = _levelled(rest.weights, rest.state, self._homes(), carried, level)
        at = self._slots(
            np.concatenate([server, bucket_server]),
            np.concatenate([histogram.tracked.weights[rows], rest.weights]),
            np.concatenate([histogram.tracked.state[rows], rest.state]),
            np.concatenate([old_keys, old_buckets]),
            target,
        )
        keys, buckets = at[: len(rows)], at[len(rows) :]
        apart = (
            keys != buckets[histogram.key_buckets[rows]]
        )  # the others go with their bucket and need no row
        return RoutingTable.build(
            self.servers.slots(self.number),
            buckets,
            histogram.keys.take(pa.array(rows[apart])),
            keys[apart],
            key_type=histogram.key_type,
            hashes=histogram.hashes[rows[apart]],
            version=self.before.version + 1 if self.before is not None else 1,
        )

    def _old_slots(self) -> tuple[Slots, Slots]:
        """The slot that each of the keys, and each bucket, has now."""
        if self.before is None:
            return np.full(len(self.rows), NEW, np.int32), np.full(self.histogram.buckets, NEW, np.int32)
        return self.before.slot_of_hashes(self.histogram.hashes[self.rows]), self.before.buckets

    def _homes(self) -> NDArray[np.int32]:
        """The server that each bucket has now; in a first plan they are dealt out, as many to each."""
        if self.before is not None:
            return self.servers.holding(self.number, self.before.buckets)
        each = -(-self.servers.slots(self.number) // self.servers.count)
        return np.arange(self.histogram.buckets, dtype=np.int32) // each % self.servers.count

    def _unplaced(self) -> Measures:
        """What each bucket holds besides the keys that are placed by themselves."""
        histogram = self.histogram
        others = np.ones(len(histogram.hashes), dtype=np.bool_)
        others[self.rows] = False
        homes = histogram.key_buckets[others]
        return histogram.rest + histogram.tracked[others].summed_by(homes, histogram.buckets)

    def _slots(
        self, server: NDArray[np.int32], load: Floats, state: Floats, old: Slots, target: float
    ) -> Slots:
        """The slot of each entry, on its server."""
        stays = self.servers.holding(self.number, old) == server
        slot = np.empty(len(server), np.int32)
        for number, own in enumerate(self.servers.own(self.number)):
            mine = np.flatnonzero(server == number)
            if len(own) == 1 or not len(mine):
                slot[mine] = own[0]
                continue
            here = np.where(stays[mine], np.searchsorted(own, old[mine]), NEW).astype(np.int32)
            slot[mine] = own[keel.spread(load[mine], state[mine], here, len(own), target)]
        return slot


def _levelled(
    load: Floats, state: Floats, old: NDArray[np.int32], carried: Floats, level: float
) -> NDArray[np.int32]:
    """The server of each bucket: its old one, unless that has more than `level` with the keys it carries.

    Then those leave that relieve it for the least state; the emptiest servers take them.
    """
    server = old.copy()
    loads = carried + sum_by(server[server >= 0], load[server >= 0], len(carried))
    for full in np.flatnonzero(loads > level).tolist():
        mine = np.flatnonzero((server == full) & (load > 0))
        mine = mine[np.argsort(state[mine] / load[mine], kind="stable")]
        leaving = mine[: int(np.searchsorted(np.cumsum(load[mine]), loads[full] - level)) + 1]
        server[leaving] = NOWHERE
        loads[full] -= load[leaving].sum()
    waiting = np.flatnonzero(server == NOWHERE)
    busy, idle = waiting[load[waiting] > 0], waiting[load[waiting] == 0]
    server[busy] = fill(load[busy], loads)
    server[idle] = np.arange(len(idle)) % len(carried)  # keys that were not seen yet will come to them
    return server
