"""The outcome of a case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """`kind` is ok, WRONG (an answer was wrong), error (not reached, or stopped without a good reason) or skip."""

    name: str
    kind: str
    seconds: float
    note: str = ""
    fault: bool = True
    """Whether it tried a fault, or only checked a query that went through several."""

    @classmethod
    def of(
        cls, name: str, wrong: Sequence[str], seconds: float, note: str = "", fault: bool = True
    ) -> Outcome:
        """Ok unless something is wrong."""
        text = "; ".join(wrong[:3]) or note
        return cls(name, "WRONG" if wrong else "ok", round(seconds, 1), text, fault)

    def line(self) -> str:
        return f"{self.kind:5}  {self.name}  ({self.seconds:.1f} s)" + (
            f"  {self.note:.300}" if self.note else ""
        )
