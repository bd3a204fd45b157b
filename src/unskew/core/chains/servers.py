"""Which server each slot of each operator of a chain is on; every server has a slot of every operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.core.routing import RoutingTable, Slots

Index = NDArray[np.int64]

NOWHERE = -1
"""The server of what has none: a key in a first plan, or a slot that no longer exists."""


@dataclass(frozen=True, eq=False)
class Servers:
    """The server of each slot, one array per operator; each of the `count` servers has a slot of every operator.

    >>> servers = Servers.of(2, [[0, 1, 1], [1, 0]])
    >>> [slots.tolist() for slots in servers.slots_by_server(0)]
    [[0], [1, 2]]
    """

    count: int
    of_slot: tuple[NDArray[np.int32], ...]

    @classmethod
    def of(cls, count: int, server_of_slot: Sequence[ArrayLike]) -> Servers:
        """Slots where the scheduler put them; refused if a server has no slot of some operator."""
        _check_whole("servers", count)
        return cls(int(count), tuple(_checked(o, servers, count) for o, servers in enumerate(server_of_slot)))

    @classmethod
    def in_order(cls, count: int, slots_per_server: int, operators: int) -> Servers:
        """The first slots on the first server, and so on, for every operator."""
        _check_whole("servers", count)
        _check_whole("slots_per_server", slots_per_server)
        servers = np.repeat(np.arange(count, dtype=np.int32), slots_per_server)
        return cls(int(count), (servers,) * operators)

    def slots(self, operator: int) -> int:
        """The number of slots of an operator."""
        return len(self.of_slot[operator])

    def slots_by_server(self, operator: int) -> list[Index]:
        """The slots of an operator that each server has."""
        of_slot = self.of_slot[operator]
        return [np.flatnonzero(of_slot == server) for server in range(self.count)]

    def look_up(self, operator: int, slots: Slots) -> NDArray[np.int32]:
        """The server of each of the slots; `NOWHERE` for slots that do not exist."""
        exists = (slots >= 0) & (slots < self.slots(operator))
        server = np.full(len(slots), NOWHERE, np.int32)
        server[exists] = self.of_slot[operator][slots[exists]]
        return server

    def fit(self, tables: Sequence[RoutingTable]) -> bool:
        """Whether each table has the number of slots that its operator has."""
        return all(table.slots == self.slots(o) for o, table in enumerate(tables))


def _checked(operator: int, server_of_slot: ArrayLike, count: int) -> NDArray[np.int32]:
    servers = np.asarray(server_of_slot)
    if servers.ndim != 1 or servers.dtype.kind not in "iu":
        raise ValueError(
            f"server_of_slot of operator {operator} is one whole number per slot, not {server_of_slot!r}"
        )
    wrong = servers[(servers < 0) | (servers >= count)]
    if len(wrong):
        raise ValueError(
            f"a slot of operator {operator} is on server {wrong[0]}, but servers are 0..{count - 1}"
        )
    missing = np.setdiff1d(np.arange(count), servers)
    if len(missing):
        raise ValueError(
            f"server {missing[0]} has no slot of operator {operator}: plan for servers that have a slot of each"
        )
    return servers.astype(np.int32)


def _check_whole(name: str, number: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
        raise ValueError(f"{name} is a whole number of at least 1, not {number!r}")
