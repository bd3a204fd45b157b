"""What an experiment is: a figure or table of a paper, what the paper claims, how to compute and judge it."""

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
    """How our figure compares with the paper's."""

    AGREES = "agrees"
    SHAPE = "agrees in shape"
    DIFFERS = "differs"


@dataclass(frozen=True)
class Timed:
    """What was measured at a point, and the seconds that parts of it took, which the seed does not determine."""

    figures: Any
    seconds: Mapping[str, float]


class Run(Protocol):
    """What an experiment gets to compute with; `research.papers.running` implements it."""

    @property
    def parameters(self) -> Parameters:
        """The paper's parameters, or the quick ones."""
        ...

    @property
    def seed(self) -> int:
        """The seed of all randomness."""
        ...

    @property
    def spark(self) -> SparkSession:
        """The Spark session of the run, started on first use."""
        ...

    def each(self, points: Sequence[Parameters], measure: Callable[..., Any]) -> list[Any]:
        """Call `measure(**point)` for each point, in order; points that a stopped run has saved are not measured again.

        A point is identified by its content, so all points of an experiment must differ.
        """
        ...


@dataclass(frozen=True)
class Record:
    """A finished experiment as it was saved.

    `results` depends only on the parameters and the seed. `times` does not: it has the `seconds` of the whole
    experiment and, under `points`, those of each point with the parts that its `Timed` names.
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
    """Whether a claim holds, and the measured numbers that show it."""

    holds: bool
    measured: str


@dataclass(frozen=True)
class Claim:
    """One statement of the paper; `check` tests it, and `why` explains it where it does not hold here."""

    says: str
    check: Callable[[Record], Fact]
    is_shape: bool
    why: str = ""


def printed(
    says: str, value: float, measured: Callable[[Record], float], *, within: float, why: str = ""
) -> Claim:
    """A number that the paper prints; the claim holds if ours is within `within` of it."""

    def check(record: Record) -> Fact:
        ours = measured(record)
        return Fact(abs(ours - value) <= within, f"{ours:.4g} (paper {value:g}, tolerance {within:g})")

    return Claim(says, check, is_shape=False, why=why)


def number(says: str, check: Callable[[Record], Fact], why: str = "") -> Claim:
    """Numbers that are judged together, or that the paper gives only approximately."""
    return Claim(says, check, is_shape=False, why=why)


def shape(says: str, check: Callable[[Record], Fact], why: str = "") -> Claim:
    """An ordering or a trend."""
    return Claim(says, check, is_shape=True, why=why)


@dataclass(frozen=True, kw_only=True)
class MeasuredFigure:
    """A figure or table that we measure and judge by the paper's claims.

    `setting` says what the paper leaves open and what we chose. `size` is the size of the picture, in inches.
    """

    name: str
    title: str
    claims: tuple[Claim, ...]
    draw: Callable[[Record, Figure], None] | None = None
    setting: str = ""
    size: tuple[float, float] = (7.0, 4.0)


@dataclass(frozen=True, kw_only=True)
class Experiment(MeasuredFigure):
    """A figure that any machine can compute. `quick` holds the parameters that differ in the quick set."""

    parameters: Parameters
    compute: Callable[[Run], Any]
    quick: Parameters = field(default_factory=dict)
    seed: int = 0
    needs_spark: bool = False

    def parameter_set(self, quick: bool) -> dict[str, Any]:
        """The paper's parameters, or the quick set."""
        return {**self.parameters, **self.quick} if quick else dict(self.parameters)


@dataclass(frozen=True, kw_only=True)
class Benchmarked(MeasuredFigure):
    """A figure that needs several hosts: a benchmark measures it, and its results have a section for it."""

    benchmark: str
    section: str

    @property
    def command(self) -> str:
        """The command that measures it."""
        return f"make bench-{self.benchmark}"


@dataclass(frozen=True)
class Omitted:
    """A figure or table that is not computed, and why."""

    name: str
    title: str
    why: str


@dataclass(frozen=True)
class Paper:
    """A paper with all its figures and tables, in the paper's order."""

    authors: str
    title: str
    venue: str
    entries: tuple[Experiment | Benchmarked | Omitted, ...]

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """The entries that can be run."""
        return tuple(entry for entry in self.entries if isinstance(entry, Experiment))


@dataclass(frozen=True)
class Judgement:
    """A figure's verdict, and the fact behind each claim."""

    verdict: Verdict
    facts: tuple[tuple[Claim, Fact], ...]


def judge(figure: MeasuredFigure, record: Record) -> Judgement:
    """Check every claim. If a shape fails, the figure differs; if only numbers fail, it agrees in shape."""
    facts = tuple((claim, claim.check(record)) for claim in figure.claims)
    failed = [claim for claim, fact in facts if not fact.holds]
    if any(claim.is_shape for claim in failed):
        return Judgement(Verdict.DIFFERS, facts)
    return Judgement(Verdict.SHAPE if failed else Verdict.AGREES, facts)
