"""Which server each slot of each operator of a chain is on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.core.chains.metis import NOWHERE, Index
from unskew.core.routing import RoutingTable, Slots


@dataclass(frozen=True, eq=False)
class Servers:
    """The server of each slot, an array an operator; every one of the `count` servers has a slot of every operator.

    >>> servers = Servers.of(2, [[0, 1, 1], [1, 0]])
    >>> [slots.tolist() for slots in servers.own(0)]
    [[0], [1, 2]]
    """

    count: int
    of_slot: tuple[NDArray[np.int32], ...]

    @classmethod
    def of(cls, count: int, placed: Sequence[ArrayLike]) -> Servers:
        """As they were found; refused where a server has no slot of some operator."""
        _check_whole("servers", count)
        return cls(int(count), tuple(_checked(o, each, count) for o, each in enumerate(placed)))

    @classmethod
    def in_order(cls, count: int, slots_per_server: int, operators: int) -> Servers:
        """The first slots on the first server, and so on, for every operator."""
        _check_whole("servers", count)
        _check_whole("slots_per_server", slots_per_server)
        each = np.repeat(np.arange(count, dtype=np.int32), slots_per_server)
        return cls(int(count), (each,) * operators)

    def slots(self, operator: int) -> int:
        """The number of slots of an operator."""
        return len(self.of_slot[operator])

    def own(self, operator: int) -> list[Index]:
        """The slots of an operator that each server has."""
        of_slot = self.of_slot[operator]
        return [np.flatnonzero(of_slot == server) for server in range(self.count)]

    def holding(self, operator: int, slots: Slots) -> NDArray[np.int32]:
        """The server of each of the slots; `NOWHERE` for those that do not exist."""
        known = (slots >= 0) & (slots < self.slots(operator))
        server = np.full(len(slots), NOWHERE, np.int32)
        server[known] = self.of_slot[operator][slots[known]]
        return server

    def fit(self, tables: Sequence[RoutingTable]) -> bool:
        """Whether each table has as many slots as there are of its operator."""
        return all(table.slots == self.slots(o) for o, table in enumerate(tables))


def _checked(operator: int, placed: ArrayLike, count: int) -> NDArray[np.int32]:
    servers = np.asarray(placed)
    if servers.ndim != 1 or servers.dtype.kind not in "iu":
        raise ValueError(
            f"the slots of operator {operator} are placed by one whole number each, not {placed!r}"
        )
    wrong = servers[(servers < 0) | (servers >= count)]
    if len(wrong):
        raise ValueError(
            f"a slot of operator {operator} is on server {wrong[0]}, but servers are 0..{count - 1}"
        )
    missing = np.setdiff1d(np.arange(count), servers)
    if len(missing):
        raise ValueError(
            f"server {missing[0]} has no slot of operator {operator}: plan for the servers that have one of each"
        )
    return servers.astype(np.int32)


def _check_whole(name: str, number: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
        raise ValueError(f"{name} is a whole number of at least 1, not {number!r}")
