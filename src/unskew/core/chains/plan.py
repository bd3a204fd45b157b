"""A plan for chained operators: their tables and the measurements they were made from, to print and to save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.core import addresses, files
from unskew.core.addresses import Address
from unskew.core.chains.locality import plan_chain_tables
from unskew.core.chains.pairs import PairHistogram
from unskew.core.chains.servers import Servers
from unskew.core.chains.tables import (
    ChainTables,
    hashed_table,
    hop_records,
    local_shares,
    overall_locality,
)
from unskew.core.histogram import Histogram
from unskew.core.loads import lower_bound
from unskew.core.plan import Plan
from unskew.core.routing import RoutingTable

if TYPE_CHECKING:
    from typing_extensions import Self

KIND = "chain plan"
"""What the first line of a saved chain plan calls it."""

_FORMAT = 1


@dataclass(frozen=True, eq=False)
class ChainPlan:
    """The tables of a chain of operators together with the measurements they were made from.

    `previous` has the tables that were in force before, None for a first plan. `locality` is that of the pairs the
    tables were made from, which they fit better than other pairs; `expected` is that of records they were not made
    from, if there were any to judge by. The other figures are those of `ChainTables`; tuples have one per operator.

    >>> regions, tags = ["Asia", "Asia", "Oceania", "Oceania"], ["#java", "#ruby", "#python", "#perl"]
    >>> sides = [Histogram.from_keys(keys, buckets=8) for keys in (regions, tags)]
    >>> ChainPlan.make(sides, [PairHistogram.from_pairs(regions, tags)], servers=2)
    ChainPlan(2 operators, 2 servers, locality 1.000, imbalance 1.000 1.000, bound 1.000 1.000)
    """

    chain: ChainTables
    pairs: tuple[PairHistogram, ...]
    previous: tuple[RoutingTable, ...] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    expected: float | None = None

    @classmethod
    def make(
        cls,
        histograms: Sequence[Histogram],
        pairs: Sequence[PairHistogram],
        servers: int,
        slots_per_server: int = 1,
        previous: ChainPlan | Sequence[RoutingTable] | None = None,
        server_of_slot: Sequence[ArrayLike] | None = None,
        **options: Any,
    ) -> Self:
        """Plan with `plan_chain_tables`, whose arguments and options these are; `previous` may also be a plan."""
        tables = previous.tables if isinstance(previous, ChainPlan) else previous
        before = None if tables is None else tuple(tables)
        chain = plan_chain_tables(
            histograms,
            pairs,
            servers,
            slots_per_server,
            before,
            server_of_slot=server_of_slot,
            **options,
        )
        return cls(chain, tuple(pairs), before, options)

    @property
    def tables(self) -> tuple[RoutingTable, ...]:
        """The table of each operator."""
        return self.chain.tables

    @property
    def histograms(self) -> tuple[Histogram, ...]:
        """What was measured of each operator, with every key of the pairs tracked."""
        return self.chain.histograms

    @property
    def servers(self) -> int:
        """The number of servers."""
        return self.chain.servers

    @property
    def server_of_slot(self) -> tuple[NDArray[np.int32], ...]:
        """The server of each slot, for each operator."""
        return self.chain.server_of_slot

    @property
    def locality(self) -> float:
        """The share of the counted pairs' records that stay on their server."""
        return self.chain.locality

    @property
    def hops(self) -> tuple[float, ...]:
        """The same for each two successive operators."""
        return self.chain.hops

    @cached_property
    def hash_locality(self) -> float:
        """The share that would stay with plain hashing, a different hash for each operator: about 1 / servers."""
        hashed = [
            hashed_table(o, table.slots, len(table.buckets), table.key_type)
            for o, table in enumerate(self.tables)
        ]
        hops = local_shares(hashed, self.pairs, server_of_slot=self.server_of_slot)
        return overall_locality(hops, hop_records(self.pairs))

    @property
    def imbalance(self) -> tuple[float, ...]:
        """Predicted max/mean slot load of each operator."""
        return self.chain.imbalance

    @property
    def bound(self) -> tuple[float, ...]:
        """The least imbalance that is possible with whole keys, for each operator."""
        return tuple(lower_bound(h, t.slots) for h, t in zip(self.histograms, self.tables, strict=True))

    @property
    def server_imbalance(self) -> tuple[float, ...]:
        """Predicted max/mean server load of each operator."""
        return self.chain.server_imbalance

    @property
    def moved(self) -> float:
        """The share of all state that moves to another slot; 0 for a first plan."""
        return self.chain.moved

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """The plan of each operator on its own."""
        previous = self.previous or (None,) * len(self.tables)
        operators = zip(self.tables, self.histograms, previous, strict=True)
        return tuple(Plan(table, h, "locality", old, dict(self.options)) for table, h, old in operators)

    def __repr__(self) -> str:
        moved = "" if self.previous is None else f", moved {self.moved:.3f}"
        return (
            f"ChainPlan({len(self.tables)} operators, {self.servers} servers, locality {self.locality:.3f}, "
            f"imbalance {_joined(self.imbalance)}, bound {_joined(self.bound)}{moved})"
        )

    def save(self, path: Address) -> None:
        """Write the plan to a checked file; `path` may be an address such as `s3a://bucket/name`."""
        kinds: dict[str, Sequence[RoutingTable | Histogram | PairHistogram]] = {
            "table": self.tables,
            "histogram": self.histograms,
            "pairs": self.pairs,
            "previous": self.previous or (),
        }
        parts = {f"{kind} {i}": part.to_bytes() for kind, of in kinds.items() for i, part in enumerate(of)}
        meta = {
            "servers": self.servers,
            "placed": [servers.tolist() for servers in self.server_of_slot],
            "chosen": self.chain.chosen,
            "expected": self.expected,
            "options": {name: files.plain(value) for name, value in self.options.items()},
        }
        addresses.write(path, files.encode_parts(KIND, _FORMAT, meta, parts))

    @classmethod
    def load(cls, path: Address) -> Self:
        """Read a plan that `save` wrote; a damaged file is refused by name."""
        return cls.from_bytes(addresses.read(path), str(path))

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "plan") -> Self:
        """Read the bytes of a saved plan."""
        meta, parts = files.decode_parts(data, KIND, _FORMAT, name)
        operators = range(len(meta["placed"]))
        tables = tuple(RoutingTable.from_bytes(parts[f"table {o}"], name) for o in operators)
        histograms = [Histogram.from_bytes(parts[f"histogram {o}"], name) for o in operators]
        pairs = tuple(PairHistogram.from_bytes(parts[f"pairs {o}"], name) for o in operators[:-1])
        previous = None
        if "previous 0" in parts:
            previous = tuple(RoutingTable.from_bytes(parts[f"previous {o}"], name) for o in operators)
        servers = Servers.of(meta["servers"], meta["placed"])
        hops = np.array(local_shares(tables, pairs, server_of_slot=servers.of_slot))
        chain = ChainTables.of(
            tables, histograms, servers, hops, hop_records(pairs), previous, meta["chosen"]
        )
        return cls(chain, pairs, previous, meta["options"], meta.get("expected"))


def _joined(figures: Sequence[float]) -> str:
    return " ".join(f"{figure:.3f}" for figure in figures)
