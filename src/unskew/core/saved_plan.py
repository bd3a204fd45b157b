"""Read a saved plan, whichever kind it is."""

from __future__ import annotations

from pathlib import Path

from unskew.core import files
from unskew.core.chains import plan as chain_plan
from unskew.core.chains.plan import ChainPlan
from unskew.core.plan import Plan


def load(path: str | Path) -> Plan | ChainPlan:
    """The plan of one operator or of chained operators, by what the file says it is."""
    if files.kind_of(Path(path).read_bytes(), str(path)) == chain_plan.KIND:
        return ChainPlan.load(path)
    return Plan.load(path)
