"""What an experiment is: a figure or table of a paper, what the paper says of it, how to compute and judge it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import SparkSession

Parameters: TypeAlias = Mapping[str, Any]


class Verdict(StrEnum):
    """How a figure of ours compares with the paper's."""

    AGREES = "agrees"
    SHAPE = "agrees in shape"
    DIFFERS = "differs"


@dataclass(frozen=True)
class Timed:
    """What was measured at a point, and the seconds that parts of it took, which no seed determines."""

    figures: Any
    seconds: Mapping[str, float]


class Run(Protocol):
    """What an experiment computes with; `research.papers.running` makes it."""

    @property
    def parameters(self) -> Parameters:
        """The paper's parameters, or the quick ones."""
        ...

    @property
    def seed(self) -> int:
        """What all randomness is drawn from."""
        ...

    @property
    def spark(self) -> SparkSession:
        """The session of the run, started when first asked for."""
        ...

    def each(self, points: Sequence[Parameters], measure: Callable[..., Any]) -> list[Any]:
        """`measure(**point)` for each point, in order; points measured before a stop are not measured again.

        A point is told by its content: all points of an experiment differ.
        """
        ...


@dataclass(frozen=True)
class Record:
    """A finished experiment as it was saved.

    `results` is the same for the same parameters and seed; `times` never is: the seconds of the whole, and
    under `points` those of each point with the parts that a `Timed` names.
    """

    name: str
    parameters: dict[str, Any]
    seed: int
    results: Any
    times: dict[str, Any]
    stamp: dict[str, Any]
    quick: bool


@dataclass(frozen=True)
class Fact:
    """Whether a claim holds, and the measured figures that show it."""

    holds: bool
    measured: str


@dataclass(frozen=True)
class Claim:
    """One thing the paper says; `check` finds out, `why` is the reason where it does not hold here."""

    says: str
    check: Callable[[Record], Fact]
    is_shape: bool
    why: str = ""


def printed(
    says: str, value: float, measured: Callable[[Record], float], *, within: float, why: str = ""
) -> Claim:
    """A printed number; it holds if ours is within `within` of it."""

    def check(record: Record) -> Fact:
        ours = measured(record)
        return Fact(abs(ours - value) <= within, f"{ours:.4g} (paper {value:g}, tolerance {within:g})")

    return Claim(says, check, is_shape=False, why=why)


def number(says: str, check: Callable[[Record], Fact], why: str = "") -> Claim:
    """Numbers that are judged together, or are only about what the paper says."""
    return Claim(says, check, is_shape=False, why=why)


def shape(says: str, check: Callable[[Record], Fact], why: str = "") -> Claim:
    """An ordering or a trend."""
    return Claim(says, check, is_shape=True, why=why)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A figure or table that is measured here and judged by what the paper claims.

    `setting` says what the paper leaves open and what was chosen. `size` is that of the picture, in inches.
    """

    name: str
    title: str
    claims: tuple[Claim, ...]
    draw: Callable[[Record, Figure], None] | None = None
    setting: str = ""
    size: tuple[float, float] = (7.0, 4.0)


@dataclass(frozen=True, kw_only=True)
class Experiment(Judged):
    """One that can be computed on any machine. `quick` holds the parameters that differ in the quick set."""

    parameters: Parameters
    compute: Callable[[Run], Any]
    quick: Parameters = field(default_factory=dict)
    seed: int = 0
    needs_spark: bool = False

    def chosen(self, quick: bool) -> dict[str, Any]:
        """The paper's parameters, or the quick set."""
        return {**self.parameters, **self.quick} if quick else dict(self.parameters)


@dataclass(frozen=True, kw_only=True)
class Benchmarked(Judged):
    """One that a benchmark of the repository measures, since it needs several hosts: the part of its results."""

    benchmark: str
    section: str

    @property
    def command(self) -> str:
        """What measures it."""
        return f"make bench-{self.benchmark}"


@dataclass(frozen=True)
class Omitted:
    """A figure or table that is not computed, and why."""

    name: str
    title: str
    why: str


@dataclass(frozen=True)
class Paper:
    """A paper with all its figures and tables, in its order."""

    authors: str
    title: str
    venue: str
    entries: tuple[Experiment | Benchmarked | Omitted, ...]

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """What can be run."""
        return tuple(entry for entry in self.entries if isinstance(entry, Experiment))


@dataclass(frozen=True)
class Judgement:
    """A figure's verdict with the fact behind each claim."""

    verdict: Verdict
    facts: tuple[tuple[Claim, Fact], ...]


def judge(figure: Judged, record: Record) -> Judgement:
    """Check every claim: a shape that fails makes the figure differ, a number only its shape agree."""
    facts = tuple((claim, claim.check(record)) for claim in figure.claims)
    failed = [claim for claim, fact in facts if not fact.holds]
    if any(claim.is_shape for claim in failed):
        return Judgement(Verdict.DIFFERS, facts)
    return Judgement(Verdict.SHAPE if failed else Verdict.AGREES, facts)
