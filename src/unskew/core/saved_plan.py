"""Read a saved plan, whichever kind it is."""

from __future__ import annotations

from unskew.core import addresses, files
from unskew.core.addresses import Address
from unskew.core.chains import plan as chain_plan
from unskew.core.chains.plan import ChainPlan
from unskew.core.plan import Plan
from unskew.core.splitting import split_plan


def load(path: Address) -> Plan | ChainPlan:
    """The plan of one operator or of chained operators, by what the file says it is."""
    data, name = addresses.read(path), str(path)
    kind = files.kind_of(data, name)
    if kind == split_plan.KIND:
        raise ValueError(
            f"{name}: a plan of a join that splits keys: pass its path to unskew.join, or read it with "
            "unskew.SplitPlan.load"
        )
    if kind == chain_plan.KIND:
        return ChainPlan.from_bytes(data, name)
    return Plan.from_bytes(data, name)
