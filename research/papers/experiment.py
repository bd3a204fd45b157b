"""What an experiment is: a figure or table of a paper, what the paper claims, how to compute and judge it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from unskew.core.text_enum import TextEnum

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import SparkSession

Parameters: TypeAlias = Mapping[str, Any]


class Verdict(TextEnum):
    """How our figure compares with the paper's."""

    AGREES = "agrees"
    SHAPE = "in shape"
    DIFFERS = "differs"
    INCONCLUSIVE = "inconclusive"


class Basis(TextEnum):
    """How the numbers of a figure came about."""

    SIMULATED = "simulated"
    """Placements were computed and loads counted: no clock is involved."""
    MEASURED = "measured"
    """Jobs or planners ran on this machine and their time was taken."""
    MODELLED = "modelled"
    """Parts were measured here, and the time on the paper's machines was computed from them."""


class Data(TextEnum):
    """What was processed."""

    GENERATED = "generated"
    REAL = "real"
    PAPER = "the paper's own"


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

    def spark_on(self, threads: int) -> SparkSession:
        """A Spark session that runs this number of tasks at once, for functions that wait and need no core."""
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
    """Whether a claim holds, and the measured numbers that show it; `holds` is None where they cannot decide it."""

    holds: bool | None
    measured: str


Why: TypeAlias = "str | Callable[[Record], str]"


@dataclass(frozen=True)
class Claim:
    """One statement of the paper; `check` tests it, and `why` explains it where it does not hold here.

    A reason that has numbers of ours is a function of the record, which they come from.
    """

    says: str
    check: Callable[[Record], Fact]
    is_shape: bool
    why: Why = ""

    def reason(self, record: Record) -> str:
        """Why it does not hold."""
        return self.why if isinstance(self.why, str) else self.why(record)


def printed(
    says: str, value: float, measured: Callable[[Record], float], *, within: float, why: Why = ""
) -> Claim:
    """A number that the paper prints; the claim holds if ours is within `within` of it."""

    def check(record: Record) -> Fact:
        ours = measured(record)
        return Fact(abs(ours - value) <= within, f"{ours:.4g} (paper {value:g}, tolerance {within:g})")

    return Claim(says, check, is_shape=False, why=why)


def number(says: str, check: Callable[[Record], Fact], why: Why = "") -> Claim:
    """Numbers that are judged together, or that the paper gives only approximately."""
    return Claim(says, check, is_shape=False, why=why)


def shape(says: str, check: Callable[[Record], Fact], why: Why = "") -> Claim:
    """An ordering or a trend."""
    return Claim(says, check, is_shape=True, why=why)


@dataclass(frozen=True, kw_only=True)
class MeasuredFigure:
    """A figure or table that we measure and judge by the paper's claims.

    `setting` says what the paper leaves open and what we chose. `size` is the size of the picture, in inches. `awaits`
    says why there is no record where it was removed and not made again. A `reduced` figure has less data or shorter
    runs than the paper's even in the full set.
    """

    name: str
    title: str
    claims: tuple[Claim, ...]
    draw: Callable[[Record, Figure], None] | None = None
    setting: str = ""
    size: tuple[float, float] = (7.0, 4.0)
    basis: Basis = Basis.SIMULATED
    data: Data = Data.GENERATED
    awaits: str = ""
    reduced: bool = False


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
class Headline:
    """What a paper is known for: its sentence and number, and our number for it from a figure's record."""

    says: str
    paper: str
    figure: str
    ours: Callable[[Record], str]


@dataclass(frozen=True)
class Paper:
    """A paper with all its figures and tables, in the paper's order; `machine` says what differs in the machines."""

    authors: str
    title: str
    venue: str
    entries: tuple[Experiment | Benchmarked | Omitted, ...]
    headlines: tuple[Headline, ...] = ()
    machine: str = ""

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
    """Check every claim. If a shape fails, the figure differs; if one cannot be decided, it is inconclusive.

    If all shapes hold and a number does not, or cannot be decided, the figure agrees in shape.
    """
    facts = tuple((claim, claim.check(record)) for claim in figure.claims)
    shapes = [fact.holds for claim, fact in facts if claim.is_shape]
    if False in shapes:
        return Judgement(Verdict.DIFFERS, facts)
    if None in shapes:
        return Judgement(Verdict.INCONCLUSIVE, facts)
    # a figure without any shape that holds cannot agree in shape
    if not shapes and not any(fact.holds for _, fact in facts):
        undecided = all(fact.holds is None for _, fact in facts)
        return Judgement(Verdict.INCONCLUSIVE if undecided else Verdict.DIFFERS, facts)
    return Judgement(Verdict.AGREES if all(fact.holds for _, fact in facts) else Verdict.SHAPE, facts)
