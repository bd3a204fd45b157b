"""Throughput on several hosts, Figures 7 to 9 and 13: what `make bench-locality` measured on its cluster."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from research.papers.drawing import styles
from research.papers.experiment import Basis, Benchmarked, Fact, Record, number, shape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SERVERS = (2, 4, 6)
PADDINGS = (0, 4, 12, 20)
LOCALITIES = (60, 80, 100)
RATES = ("1gbit", "100mbit")
LIVE_PADDINGS = (0, 4, 8, 12)
CONTENDERS = ("locality-aware", "hash", "worst case")


def _rates(record: Record, servers: int, locality: int, padding: int) -> dict[str, float]:
    """Records per second of every contender at a point."""
    row = record.results[f"{servers} servers, locality {locality}%, {padding} kB"]
    return {name: row[name]["throughput"] for name in CONTENDERS}


def _gain(rates: dict[str, float]) -> float:
    return rates["locality-aware"] / rates["hash"]


def _listed(gains: dict[Any, float]) -> str:
    return ", ".join(f"{name}: {gain:.2f} ×" for name, gain in gains.items())


def _noise(record: Record) -> float:
    """The largest factor between two runs of hash that send the same bytes: what one run per point cannot resolve."""
    factors = []
    for n in SERVERS:
        rates = [_rates(record, n, z, 12)["hash"] for z in LOCALITIES]
        factors.append(max(rates) / min(rates))
    return max(factors)


def _decided(record: Record, ratio: float) -> bool | None:
    """Whether a ratio that the paper has above 1 is above 1; None if it is within the noise of one run per point."""
    noise = _noise(record)
    return True if ratio > noise else False if ratio < 1 / noise else None


def _outperforms(record: Record) -> Fact:
    points = {f"{n} servers, {p} kB": _rates(record, n, 60, p) for n in SERVERS for p in (0, 12, 20)}
    gains = {
        name: rates["locality-aware"] / max(rates["hash"], rates["worst case"])
        for name, rates in points.items()
    }
    return Fact(_decided(record, min(gains.values())), f"over the better of the others, {_listed(gains)}")


def _scales(record: Record) -> Fact:
    gains = {
        name: _rates(record, 6, 60, 12)[name] / _rates(record, 2, 60, 12)[name]
        for name in ("locality-aware", "hash")
    }
    ratio = gains["locality-aware"] / gains["hash"]
    return Fact(_decided(record, ratio), f"6 servers over 2 with 12 kB, {_listed(gains)}")


def _ideal(record: Record) -> Fact:
    rates = {p: _rates(record, 4, 100, p)["locality-aware"] for p in (0, 20)}
    ratio, noise = rates[20] / rates[0], _noise(record)
    return Fact(
        None if 1 / noise <= ratio <= noise and not 0.8 < ratio < 1.25 else 0.8 < ratio < 1.25,
        f"4 servers: {rates[0]:.0f} records per second without padding, {rates[20]:.0f} with 20 kB",
    )


def _unpadded(record: Record) -> Fact:
    rates = _rates(record, 4, 100, 0)
    ratio = rates["hash"] / rates["locality-aware"]
    noise = _noise(record)
    near = 0.78 / noise <= ratio <= 0.78 * noise
    return Fact(None if near else False, f"{1 - ratio:.0%} on 4 servers")


def _unaffected(record: Record) -> Fact:
    spreads = {}
    for n in SERVERS:
        rates = [_rates(record, n, z, 12)["hash"] for z in LOCALITIES]
        spreads[f"{n} servers"] = max(rates) / min(rates)
    holds = True if max(spreads.values()) < 1.25 else None
    return Fact(holds, f"fastest over slowest, {_listed(spreads)}")


def _grows(record: Record) -> Fact:
    lines = {n: [_rates(record, n, z, 12)["locality-aware"] for z in LOCALITIES] for n in SERVERS}
    gains = {f"{n} servers": line[-1] / line[0] for n, line in lines.items()}
    return Fact(_decided(record, min(gains.values())), f"100 % over 60 % locality, {_listed(gains)}")


def _with_padding(record: Record) -> Fact:
    gains = {f"{n} servers, {p} kB": _gain(_rates(record, n, 80, p)) for n in SERVERS for p in (0, 20)}
    least = min(gains[f"{n} servers, 20 kB"] / gains[f"{n} servers, 0 kB"] for n in SERVERS)
    return Fact(_decided(record, least), f"over hash, {_listed(gains)}")


def _with_servers(record: Record) -> Fact:
    gains = {n: _gain(_rates(record, n, 80, 20)) for n in SERVERS}
    return Fact(_decided(record, gains[6] / gains[2]), f"over hash with 20 kB, {_listed(gains)}")


def _similar(record: Record) -> Fact:
    rates = _rates(record, 6, 80, 20)
    ratio = rates["worst case"] / rates["hash"]
    within = 1 / _noise(record) <= ratio <= _noise(record)
    return Fact(None if within else False, f"worst case over hash, 6 servers, 20 kB: {ratio:.2f} ×")


@dataclass(frozen=True)
class Runs:
    """The batch times of a live stream with and without reconfiguration at one point, run by run."""

    hashed: list[list[float]]
    aware: list[list[float]]

    @classmethod
    def at(cls, record: Record, point: str) -> Runs:
        """The runs of a point."""
        row = record.results[point]
        return cls(*([run["seconds"] for run in row[name]] for name in ("hash", "locality-aware")))

    @property
    def gains(self) -> list[float]:
        """What the first reconfiguration gains over the same batches without one, run by run.

        Streams get faster as their JVMs warm up, with or without a reconfiguration.
        """
        steps = [
            [statistics.median(run[4:10]) / statistics.median(run[14:]) for run in runs]
            for runs in (self.aware, self.hashed)
        ]
        return [aware / hashed for aware, hashed in zip(*steps, strict=True)]

    @property
    def gain(self) -> float:
        """The median gain."""
        return statistics.median(self.gains)

    @property
    def improves(self) -> bool | None:
        """Whether every run gained; None if some did and some did not."""
        return True if min(self.gains) > 1 else False if max(self.gains) < 1 else None

    def throughput(self, name: str) -> float:
        """Micro-batches per second after the first reconfiguration, the median of all runs."""
        runs = self.hashed if name == "hash" else self.aware
        return 1 / statistics.median(s for run in runs for s in run[14:])

    def __str__(self) -> str:
        return f"{self.gain:.2f} × ({min(self.gains):.2f} to {max(self.gains):.2f} in {len(self.gains)} runs)"


def _thirteen(record: Record) -> dict[str, Runs]:
    """The points of Figure 13."""
    points = (f"6 servers, {rate}, {padding} kB" for rate in RATES for padding in LIVE_PADDINGS)
    return {point: Runs.at(record, point) for point in points}


def _fourteen(record: Record) -> dict[int, Runs]:
    """The points of Figure 14, by servers."""
    return {n: Runs.at(record, f"{n} servers, {RATES[-1]}, 4 kB") for n in SERVERS}


def _all(answers: list[bool | None]) -> bool | None:
    return False if False in answers else None if None in answers else True


def _above(more: Runs, less: Runs) -> bool | None:
    """Whether one gains more than the other in every run; None if their runs overlap."""
    if min(more.gains) > max(less.gains):
        return True
    return False if max(more.gains) < min(less.gains) else None


def gains(record: Record) -> str:
    """The throughput over that of hash by the number of servers."""
    return _listed({f"{n} servers": _gain(_rates(record, n, 80, 20)) for n in SERVERS})


def steps(record: Record) -> str:
    """What the first reconfiguration adds, by network and padding."""
    return ", ".join(f"{point}: {runs}" for point, runs in _thirteen(record).items())


def by_servers(record: Record) -> str:
    """The same by servers."""
    return ", ".join(f"{n} servers: {runs}" for n, runs in _fourteen(record).items())


def _improves(record: Record) -> Fact:
    answers = [runs.improves for point, runs in _thirteen(record).items() if not point.endswith(", 0 kB")]
    return Fact(_all(answers), f"over no reconfiguration, {steps(record)}")


def _larger_tuples(record: Record) -> Fact:
    points, most = _thirteen(record), LIVE_PADDINGS[-1]
    pairs = [(points[f"6 servers, {r}, {most} kB"], points[f"6 servers, {r}, 0 kB"]) for r in RATES]
    return Fact(_all([_above(more, less) for more, less in pairs]), steps(record))


def _slower_links(record: Record) -> Fact:
    points, most = _thirteen(record), LIVE_PADDINGS[-1]
    fast, slow = (points[f"6 servers, {rate}, {most} kB"] for rate in RATES)
    return Fact(_above(slow, fast), f"with {most} kB, {RATES[0]}: {fast}, {RATES[1]}: {slow}")


def _more_servers(record: Record) -> Fact:
    points = _fourteen(record)
    return Fact(_above(points[SERVERS[-1]], points[SERVERS[0]]), by_servers(record))


SHARED = "the runs overlap: all hosts share two cores, and the spread of the runs is given beside each median"


def _panels(
    record: Record, figure: Figure, label: str, x: tuple[int, ...], panels: dict[str, Callable[[int], Any]]
) -> None:
    """Draw panels side by side: the rates of all contenders over `x`. A panel maps a value of `x` to its point."""
    for axes, (title, at) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        for name, style in zip(CONTENDERS, styles(), strict=False):
            axes.plot(x, [_rates(record, *at(value))[name] for value in x], label=name, **style)
        axes.set(xlabel=label, ylabel="records per second", title=title, ylim=(0, None))
    axes.legend()


def draw_parallelism(record: Record, figure: Figure) -> None:
    """Figure 7."""
    panels: dict[str, Callable[[int], Any]] = {
        "60 %, no padding": lambda n: (n, 60, 0),
        "60 %, 20 kB": lambda n: (n, 60, 20),
        "100 %, 20 kB": lambda n: (n, 100, 20),
    }
    _panels(record, figure, "servers", SERVERS, panels)


def draw_locality(record: Record, figure: Figure) -> None:
    """Figure 8."""
    _panels(record, figure, "locality, %", LOCALITIES, dict(_by_servers(lambda n: lambda z: (n, z, 12))))


def draw_padding(record: Record, figure: Figure) -> None:
    """Figure 9."""
    _panels(record, figure, "padding, kB", PADDINGS, dict(_by_servers(lambda n: lambda p: (n, 80, p))))


def _by_servers(at: Callable[[int], Callable[[int], Any]]) -> Iterator[tuple[str, Callable[[int], Any]]]:
    return ((f"{n} servers", at(n)) for n in SERVERS)


def draw_steps(record: Record, figure: Figure) -> None:
    """Figure 13: the median of all runs, batch by batch."""
    panels = figure.subplots(len(RATES), len(LIVE_PADDINGS), sharex=True, squeeze=False)
    for row, rate in zip(panels, RATES, strict=True):
        for axes, padding in zip(row, LIVE_PADDINGS, strict=True):
            runs = Runs.at(record, f"6 servers, {rate}, {padding} kB")
            contenders = (("locality-aware", runs.aware), ("hash", runs.hashed))
            for (name, seconds), style in zip(contenders, styles(), strict=False):
                medians = [statistics.median(batch) for batch in zip(*seconds, strict=True)]
                axes.plot([1 / s for s in medians], label=name, markersize=2, **style)
            axes.axvline(10, color="black", linewidth=0.8, linestyle="--")
            axes.set(title=f"{rate}, {padding} kB", ylim=(0, None))
    panels[0][0].legend()
    figure.supxlabel("micro-batch")
    figure.supylabel("micro-batches per second")


def draw_servers(record: Record, figure: Figure) -> None:
    """Figure 14."""
    axes = figure.subplots()
    points = _fourteen(record)
    for name, style in zip(("locality-aware", "hash"), styles(), strict=False):
        axes.plot(list(points), [runs.throughput(name) for runs in points.values()], label=name, **style)
    axes.set(xlabel="servers", ylabel="micro-batches per second", ylim=(0, None))
    axes.legend()


SYNTHETIC: dict[str, Any] = {
    "benchmark": "locality",
    "section": "synthetic",
    "basis": Basis.MEASURED,
    "reduced": True,
    "size": (9.0, 3.2),
    "setting": "A batch of two grouped operators on Spark, on up to six hosts in network namespaces of one machine "
    "with two cores, with links limited to 100 Mb/s. There are 32 keys per server, where the paper has one: Spark runs "
    "a task where most of its input is, which makes every table with one key per server local. The paper's messages "
    "are sent one by one between machines of their own, for minutes.",
}

ON_DISK = (
    "records that stay are still written to a shuffle file and read back, padding included; the paper passes them on "
    "in memory"
)


def noise(record: Record) -> str:
    """What one run per point cannot resolve."""
    row = record.results[f"{SERVERS[0]} servers, locality {LOCALITIES[0]}%, 12 kB"]["hash"]
    runs = len(row.get("throughputs", [1]))
    what = f"the median of {runs} runs" if runs > 1 else "one run"
    return (
        f"a point is {what} of a few seconds, on hosts that share two cores with all other work of the machine: hash "
        f"sends the same bytes at every locality, and its times still differ by up to {_noise(record):.2f} ×. What "
        "differs by less is undecided"
    )


PARALLELISM = Benchmarked(
    name="caneill-7",
    title="Throughput over parallelism for two message sizes",
    claims=(
        shape(
            "locality-aware outperforms the others for all paddings",
            _outperforms,
            why=noise,
        ),
        shape("locality-aware scales better than the others", _scales, why=noise),
        number("at 100 % locality padding has no effect", _ideal, why=ON_DISK),
        number("the network costs 22 % even without padding", _unpadded, why=noise),
    ),
    draw=draw_parallelism,
    **SYNTHETIC,
)

LOCALITY = Benchmarked(
    name="caneill-8",
    title="Throughput over locality with a message size of 12 kB",
    claims=(
        shape("hash is not affected by locality", _unaffected, why=noise),
        shape("locality-aware gains as the locality grows", _grows, why=noise),
    ),
    draw=draw_locality,
    **SYNTHETIC,
)

PADDING = Benchmarked(
    name="caneill-9",
    title="Throughput over padding with a locality of 80 %",
    claims=(
        shape("the gain grows with the padding", _with_padding, why=noise),
        shape("the gain grows with the parallelism", _with_servers, why=noise),
        number(
            "in the hardest setting hash and worst case perform alike",
            _similar,
            why=noise,
        ),
    ),
    draw=draw_padding,
    **SYNTHETIC,
)

LIVE: dict[str, Any] = {
    "benchmark": "locality",
    "section": "reconfigured",
    "basis": Basis.MEASURED,
    "reduced": True,
    "awaits": "the last record had four hosts, one padding and one run per point, with uncommitted changes",
    "setting": "A live stream of generated pictures, (tag, country, padding), through two stateful operators; links "
    "have 1 Gb/s and 100 Mb/s instead of the paper's 10 Gb/s and 1 Gb/s, since all hosts share two cores. Every point "
    "has several runs with and without reconfiguration, in turns.",
}

STEP = Benchmarked(
    name="caneill-13",
    title="Throughput with and without reconfiguration on six hosts, for two networks and all paddings",
    claims=(
        shape(
            "throughput improves with the first reconfiguration, and stays improved", _improves, why=SHARED
        ),
        shape("the gain grows with the padding", _larger_tuples, why=SHARED),
        shape("the slower the network, the more it improves", _slower_links, why=SHARED),
    ),
    draw=draw_steps,
    size=(10.0, 5.0),
    **LIVE,
)

AVERAGE = Benchmarked(
    name="caneill-14",
    title="Average throughput over parallelism, with and without reconfiguration",
    claims=(shape("the gap is larger for more instances", _more_servers, why=SHARED),),
    draw=draw_servers,
    **LIVE,
)
