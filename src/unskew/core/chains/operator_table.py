"""From the servers of one operator's keys to its table: buckets level the servers, slots share their server's load."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.core.chains.servers import NOWHERE, Index, Servers
from unskew.core.histogram import Floats, Histogram, Measures, sum_by
from unskew.core.planners import keel
from unskew.core.planners.parts.workbench import NEW
from unskew.core.routing import RoutingTable, Slots
from unskew.core.scheduling import fill


@dataclass(frozen=True, eq=False)
class TableBuilder:
    """Builds the table of operator number `operator` of a chain.

    `rows` has the rows of the histogram's keys that are placed individually; `previous` is the table in force.
    """

    operator: int
    histogram: Histogram
    rows: Index
    servers: Servers
    previous: RoutingTable | None

    def build(self, server: NDArray[np.int32], cap: float, target: float) -> RoutingTable:
        """The table that puts each of the keys on its server.

        A server gets no more than `cap` of the load, as far as buckets can ensure that, and none of its slots more
        than 1 + `target` of their mean, as far as `keel` can.
        """
        histogram, rows = self.histogram, self.rows
        old_keys, old_buckets = self._old_slots()
        rest = self._unplaced()
        carried = sum_by(server, histogram.tracked.weights[rows], self.servers.count)
        # in a first plan nothing has to stay where it is, so the servers can be levelled at no cost
        level = (cap if self.previous is not None else 1.0 / self.servers.count) * histogram.total
        bucket_server = _level_servers(rest.weights, rest.state, self._bucket_servers(), carried, level)
        slots = self._slots(
            np.concatenate([server, bucket_server]),
            np.concatenate([histogram.tracked.weights[rows], rest.weights]),
            np.concatenate([histogram.tracked.state[rows], rest.state]),
            np.concatenate([old_keys, old_buckets]),
            target,
        )
        keys, buckets = slots[: len(rows)], slots[len(rows) :]
        # the other keys go with their bucket and need no row
        apart = keys != buckets[histogram.key_buckets[rows]]
        return RoutingTable.build(
            self.servers.slots(self.operator),
            buckets,
            histogram.keys.take(pa.array(rows[apart])),
            keys[apart],
            key_type=histogram.key_type,
            hashes=histogram.hashes[rows[apart]],
            version=self.previous.version + 1 if self.previous is not None else 1,
        )

    def _old_slots(self) -> tuple[Slots, Slots]:
        """The slot that each of the keys, and each bucket, has now."""
        if self.previous is None:
            return np.full(len(self.rows), NEW, np.int32), np.full(self.histogram.buckets, NEW, np.int32)
        return self.previous.slot_of_hashes(self.histogram.hashes[self.rows]), self.previous.buckets

    def _bucket_servers(self) -> NDArray[np.int32]:
        """The server that each bucket has now; in a first plan every server is dealt the same number of buckets."""
        if self.previous is not None:
            return self.servers.look_up(self.operator, self.previous.buckets)
        slots_each = -(-self.servers.slots(self.operator) // self.servers.count)
        return np.arange(self.histogram.buckets, dtype=np.int32) // slots_each % self.servers.count

    def _unplaced(self) -> Measures:
        """What each bucket holds besides the keys that are placed individually."""
        histogram = self.histogram
        unplaced = np.ones(len(histogram.hashes), dtype=np.bool_)
        unplaced[self.rows] = False
        homes = histogram.key_buckets[unplaced]
        return histogram.rest + histogram.tracked[unplaced].summed_by(homes, histogram.buckets)

    def _slots(
        self, server: NDArray[np.int32], load: Floats, state: Floats, old: Slots, target: float
    ) -> Slots:
        """The slot of each entry, on its server."""
        stays = self.servers.look_up(self.operator, old) == server
        slot = np.empty(len(server), np.int32)
        for number, own in enumerate(self.servers.slots_by_server(self.operator)):
            entries = np.flatnonzero(server == number)
            if len(own) == 1 or not len(entries):
                slot[entries] = own[0]
                continue
            old_own = np.where(stays[entries], np.searchsorted(own, old[entries]), NEW).astype(np.int32)
            slot[entries] = own[keel.spread(load[entries], state[entries], old_own, len(own), target)]
        return slot


def _level_servers(
    load: Floats, state: Floats, old: NDArray[np.int32], carried: Floats, level: float
) -> NDArray[np.int32]:
    """The server of each bucket: its old one, unless that has more than `level` with the keys it carries.

    Then the buckets leave that relieve it for the least state moved; the emptiest servers take them.
    """
    server = old.copy()
    loads = carried + sum_by(server[server >= 0], load[server >= 0], len(carried))
    for full in np.flatnonzero(loads > level).tolist():
        own = np.flatnonzero((server == full) & (load > 0))
        own = own[np.argsort(state[own] / load[own], kind="stable")]
        leaving = own[: int(np.searchsorted(np.cumsum(load[own]), loads[full] - level)) + 1]
        server[leaving] = NOWHERE
        loads[full] -= load[leaving].sum()
    waiting = np.flatnonzero(server == NOWHERE)
    busy, idle = waiting[load[waiting] > 0], waiting[load[waiting] == 0]
    server[busy] = fill(load[busy], loads)
    # idle buckets are dealt evenly, too: keys that do not exist yet will fall into them
    server[idle] = np.arange(len(idle)) % len(carried)
    return server
