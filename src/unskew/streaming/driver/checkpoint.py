"""Step 2 of starting a query: its checkpoint recognised, or begun, and held against other queries."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unskew.core.addresses import local_path, one_line
from unskew.core.migration.protocol import first_turn
from unskew.core.routing import RoutingTable
from unskew.streaming.driver.operator_spec import OperatorSpec
from unskew.streaming.driver.resolve import Resolved
from unskew.streaming.failpoints import failpoint
from unskew.streaming.storage.folder import absolute
from unskew.streaming.storage.lease import Lease
from unskew.streaming.storage.ledger import Ledger

_FIXED = {
    "operators": "the number of chained operators",
    "key": "the key",
    "state": "the state",
    "hash": "the hash",
    "buckets": "the number of buckets",
    "aggregates": "the set of aggregates",
    "window": "the window",
    "expires": "the expiry",
}
"""What may not change between two starts on one checkpoint, in words."""


@dataclass(frozen=True)
class Checkpoint:
    """An open checkpoint: the lease that keeps other queries away, and the ledger of each operator, upstream first."""

    address: str
    lease: Lease
    ledgers: Sequence[Ledger]
    max_slots: int

    @property
    def has_committed(self) -> bool:
        """Whether Spark has committed a batch on it."""
        return bool(self.ledgers[0].spark.names("commits"))


def open_checkpoint(address: str, resolved: Resolved) -> Checkpoint:
    """Recognise the checkpoint, or begin it; another query's is refused before anything is written."""
    address = check_checkpoint(address, resolved)
    specs, count = resolved.specs, len(resolved.specs)
    lease = Lease(address).take()
    try:
        max_slots, ledgers = resolved.max_slots, []
        for number, spec in enumerate(specs):
            # again, now that no other query can write
            description = _recognise(address, spec, resolved.buckets, number, count)
            if description is None:
                description = _begin(address, spec, max_slots, resolved.buckets, number, count)
            max_slots = description["max_slots"]
            ledger = Ledger(address, description["checkpoint_id"], number, count - 1 - number)
            # new, or its first driver died right after it began
            if not ledger.folder.names("turns"):
                ledger.publish(first_turn(_first_table(resolved, number, max_slots)))
            ledgers.append(ledger)
    except BaseException:
        lease.release()
        raise
    return Checkpoint(address, lease, ledgers, max_slots)


def check_checkpoint(address: str, resolved: Resolved) -> str:
    """Refuse a checkpoint that cannot be written or belongs to another query; returns its absolute address."""
    address = absolute(address)
    try:
        Ledger(address).folder.names("turns")
    except (OSError, ValueError, NotImplementedError) as error:
        raise ValueError(f"checkpoint {address!r} cannot be reached: {one_line(error)}") from error
    path = local_path(address)
    if path is not None:
        existing = next((folder for folder in (path, *path.parents) if os.path.lexists(folder)), path)
        if not existing.is_dir():
            raise ValueError(f"checkpoint {address!r}: {existing} is not a folder: choose another one")
        if not os.access(existing, os.W_OK | os.X_OK):
            raise ValueError(
                f"checkpoint {address!r}: no permission to write to {existing}: choose another one"
            )
    count = len(resolved.specs)
    for number, spec in enumerate(resolved.specs):
        _recognise(address, spec, resolved.buckets, number, count)
    return address


def _recognise(
    checkpoint: str, spec: OperatorSpec, buckets: int, number: int, operators: int
) -> dict[str, Any] | None:
    """What the checkpoint says of its operator; None if it is new. Another operator's checkpoint is refused."""
    ledger = Ledger(checkpoint, number=number)
    description = ledger.operator()
    if description is None:
        if ledger.folder.names("turns"):
            raise ValueError(f"{ledger.folder.address}/operator is missing: restore it")
        if ledger.spark.names("offsets"):
            raise ValueError(f"{checkpoint} belongs to another query: choose a new checkpoint")
        return None
    now, before = _fixed(spec.describe(buckets, operators)), _fixed(description)
    for name, value in now.items():
        if before[name] != value:
            raise ValueError(
                f"{_FIXED[name]} is {value}, but {checkpoint} was begun with {before[name]}: "
                "start with what it was, or on a new checkpoint"
            )
    if not ledger.folder.names("turns") and ledger.spark.names("offsets"):
        raise ValueError(
            f"{ledger.folder.address}/turns is empty: it says which slot has which state; restore it"
        )
    return description


def _fixed(description: Mapping[str, Any]) -> dict[str, Any]:
    """What may not change between two starts; columns that the operator does not use may come and go."""
    operator = description["operator"]
    return {
        **{name: description[name] for name in ("operators", "key", "state", "hash", "buckets")},
        **{name: operator.get(name) for name in ("aggregates", "window", "expires")},
    }


def _begin(
    checkpoint: str, spec: OperatorSpec, max_slots: int, buckets: int, number: int, operators: int
) -> dict[str, Any]:
    """Write down what the operator is."""
    description = {
        **spec.describe(buckets, operators),
        "max_slots": max_slots,
        "checkpoint_id": uuid.uuid4().hex,
    }
    Ledger(checkpoint, number=number).write_operator(description)
    failpoint("begun", 0)
    return description


def _first_table(resolved: Resolved, number: int, max_slots: int) -> RoutingTable:
    if resolved.tables:
        table = resolved.tables[number]
        if table.slots > max_slots:
            raise ValueError(
                f"the plan is for {table.slots} slots, but this checkpoint has at most {max_slots}: plan for fewer, or "
                "choose a new checkpoint"
            )
        return table.with_version(1)
    slots = min(resolved.slots, max_slots)
    key_type = resolved.specs[number].keys.type
    return RoutingTable.hashed(slots, resolved.buckets, key_type).with_version(1)
