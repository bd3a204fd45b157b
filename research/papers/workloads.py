"""Generated data shaped like what the papers measured, where theirs was never published.

Each generator is a function of its arguments and a seed. Keys are numbers: which of them is hot is part of the draw, so
that another seed also means other hash values, as the random strings of the KIP paper do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from research.workloads import zipf
from unskew.core.hashing import buckets_of, hash_keys
from unskew.core.histogram import Floats, Histogram

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Window:
    """How often each key came in one window; keys that did not come are left out."""

    keys: Numbers
    counts: Numbers

    def histogram(self, *, buckets: int, capacity: int = 65_536) -> Histogram:
        """The load of the window; the state of a key is its records."""
        return Histogram.from_arrays(self.keys, self.counts, buckets=buckets, capacity=capacity)


def with_state(windows: Iterable[Window], kept: int, *, buckets: int) -> Iterator[Histogram]:
    """The load of each window; the state of a key is its records in the last `kept` windows."""
    recent: deque[Window] = deque(maxlen=kept)
    for window in windows:
        recent.append(window)
        counts = np.concatenate([one.counts for one in recent])
        new = np.concatenate([one.counts * (one is window) for one in recent])
        keys = np.concatenate([one.keys for one in recent])
        yield Histogram.from_arrays(keys, new, state=counts, buckets=buckets)


def names(count: int, random: np.random.Generator) -> Numbers:
    """Different numbers for `count` keys, so that no two draws hash alike."""
    return random.choice(1 << 40, count, replace=False, shuffle=False)


def drawn(keys: Numbers, counts: Numbers) -> Window:
    """A window of the keys that came."""
    came = np.flatnonzero(counts)
    return Window(keys[came], counts[came])


def zipf_window(records: int, keys: int, exponent: float, random: np.random.Generator) -> Window:
    """ZIPF of the KIP paper: independent records of a Zipf distribution."""
    return drawn(names(keys, random), random.multinomial(records, zipf(keys, exponent)))


def tags(
    batches: int,
    size: int,
    *,
    distinct: int = 50_000,
    exponent: float = 0.9,
    artists: int = 5_000,
    session: float = 20.0,
    seed: int,
) -> Iterator[Window]:
    """LFM: tags of music listening records, which come in sessions and so in bursts.

    Each of the `artists` has five of the `distinct` tags, drawn by a Zipf distribution, and is as popular as a Zipf
    rank says. A session is a user who listens to one artist `session` times in the mean; every
    listening carries one of the artist's tags. In every batch a tenth of the artists trades popularity with one
    another: releases, festivals, obituaries.
    """
    random = np.random.default_rng(seed)
    keys = names(distinct, random)
    tagged = random.choice(distinct, (artists, 5), p=zipf(distinct, exponent))
    popularity = zipf(artists, 0.7)
    for _ in range(batches):
        trading = random.choice(artists, artists // 10, replace=False)
        popularity[trading] = popularity[random.permutation(trading)]
        listened = random.choice(artists, int(size / session), p=popularity)
        lengths = random.multinomial(size, random.dirichlet(np.ones(len(listened))))
        chosen = np.repeat(listened, lengths)
        found = tagged[chosen, random.integers(5, size=size)]
        yield drawn(keys, np.bincount(found, minlength=distinct))


def words(
    windows: int,
    rate: float,
    *,
    distinct: int = 100_000,
    exponent: float = 1.0,
    topics: int = 50,
    swing: float = 0.5,
    memory: float = 0.9,
    seed: int,
) -> Iterator[Window]:
    """Tweets by their word, minute by minute: Zipf-distributed, and the words of a topic rise and fall together.

    The logarithm of a topic's activity is an autoregressive process with standard deviation `swing`, of which a minute
    keeps the part `memory`. A minute has `rate` tweets in the mean, by a Poisson process.
    """
    random = np.random.default_rng(seed)
    keys = names(distinct, random)
    base, topic = zipf(distinct, exponent), random.integers(topics, size=distinct)
    activity = random.normal(0.0, swing, topics)
    for _ in range(windows):
        shares = base * np.exp(activity)[topic]
        yield drawn(keys, random.poisson(rate * shares / shares.sum()))
        news = random.normal(0.0, swing, topics)
        activity = memory * activity + np.sqrt(1.0 - memory**2) * news


def substreams(shares: Floats, windows: int, rate: float, *, seed: int) -> Iterator[Histogram]:
    """S1 and S2 of Guo and Zhou: every key value is a substream of its own, and tuples are a Poisson process.

    The partition function decides which substream has which number, so the numbers are drawn.
    """
    random = np.random.default_rng(seed)
    shares = random.permutation(shares)
    keys = one_a_bucket(len(shares))
    for _ in range(windows):
        yield Window(keys, random.poisson(rate * shares)).histogram(buckets=len(shares), capacity=0)


def one_a_bucket(buckets: int) -> Numbers:
    """A key for each of the buckets, in their order."""
    candidates = np.arange(100 * buckets)
    found, first = np.unique(buckets_of(hash_keys(candidates), buckets), return_index=True)
    if len(found) < buckets:
        raise ValueError(f"of {len(candidates)} keys none falls into some of {buckets} buckets")
    return candidates[first]


@dataclass(frozen=True, eq=False)
class Pages:
    """A crawl round's fetch list: the host of each page, and the seconds that loading it takes."""

    hosts: Numbers
    seconds: Floats


def crawl(rounds: int, pages: int, *, sites: int = 64, growth: float = 1.5, seed: int) -> Iterator[Pages]:
    """Crawl rounds from a list of news sites: a few large sites, and small ones that they refer to.

    Sizes and loading times of sites are lognormal. The first round has only the injected sites, later ones ten times
    as many more, which hold a tenth of the pages. Each round fetches `growth` times as many pages as the one before
    it, and the last one `pages`.
    """
    random = np.random.default_rng(seed)
    keys = names(11 * sites, random)
    sizes = random.lognormal(0.0, 1.2, 11 * sites)
    sizes[:sites] *= 0.9 / sizes[:sites].sum()
    sizes[sites:] *= 0.1 / sizes[sites:].sum()
    loading = random.lognormal(0.0, 0.5, 11 * sites)
    for turn in range(1, rounds + 1):
        known = sites if turn == 1 else 11 * sites
        counts = random.poisson(pages / growth ** (rounds - turn) * sizes[:known])
        site = np.repeat(np.arange(known), counts)
        yield Pages(keys[site], loading[site] * random.exponential(1.0, len(site)))


@dataclass(frozen=True, eq=False)
class Texts:
    """Crawled texts: the host and the minute of each, and its words."""

    hosts: Numbers
    minutes: Numbers
    bodies: list[str]


WORDS = ("the", "of", "Budapest", "crawl", "Storm", "and", "Spark", "Oslo", "a", "news", "Twitter")


def texts(records: int, *, hosts: int = 400, exponent: float = 1.2, seed: int) -> Texts:
    """Output of a crawl for named entity recognition: a few hosts write most, and some write longer texts."""
    random = np.random.default_rng(seed)
    host = random.choice(hosts, records, p=zipf(hosts, exponent))
    length = 1 + random.poisson(random.lognormal(5.0, 0.5, hosts)[host])
    vocabulary = np.array(WORDS)
    bodies = [" ".join(vocabulary[random.integers(len(WORDS), size=n)]) for n in length]
    return Texts(names(hosts, random)[host], random.integers(0, 240, records), bodies)
