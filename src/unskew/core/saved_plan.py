"""Read a saved plan, whichever kind it is."""

from __future__ import annotations

from unskew.core import addresses, files
from unskew.core.addresses import Address
from unskew.core.chains import plan as chain_plan
from unskew.core.chains.plan import ChainPlan
from unskew.core.plan import Plan


def load(path: Address) -> Plan | ChainPlan:
    """The plan of one operator or of chained operators, by what the file says it is."""
    data, name = addresses.read(path), str(path)
    if files.kind_of(data, name) == chain_plan.KIND:
        return ChainPlan.from_bytes(data, name)
    return Plan.from_bytes(data, name)
