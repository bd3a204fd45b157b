"""Generated data shaped like the papers' data, where that was never published.

Each generator is a function of its arguments and a seed. Keys are numbers. Which of them are hot is random too, so
another seed also gives other hash values, as the random strings of the KIP paper do.
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
    """How often each key occurs in one window; keys that do not occur are left out."""

    keys: Numbers
    counts: Numbers

    def histogram(self, *, buckets: int, capacity: int = 65_536) -> Histogram:
        """The load of the window; the state of a key is its number of records."""
        return Histogram.from_arrays(self.keys, self.counts, buckets=buckets, capacity=capacity)


def with_state(windows: Iterable[Window], state_windows: int, *, buckets: int) -> Iterator[Histogram]:
    """The load of each window; the state of a key is its number of records in the last `state_windows` windows."""
    recent: deque[Window] = deque(maxlen=state_windows)
    for window in windows:
        recent.append(window)
        keys = np.concatenate([past.keys for past in recent])
        state = np.concatenate([past.counts for past in recent])
        load = np.concatenate([past.counts * (past is window) for past in recent])
        yield Histogram.from_arrays(keys, load, state=state, buckets=buckets)


def random_keys(count: int, random: np.random.Generator) -> Numbers:
    """Distinct random numbers for `count` keys, so that every draw has its own hash values."""
    return random.choice(1 << 40, count, replace=False, shuffle=False)


def window_of(keys: Numbers, counts: Numbers) -> Window:
    """A window of the keys that occur."""
    occurring = np.flatnonzero(counts)
    return Window(keys[occurring], counts[occurring])


def shifted_zipf(keys: int, exponent: float, shift: int) -> Floats:
    """The shares of keys by rank, ∝ 1 / (rank + shift)^exponent; a shift makes the heaviest ones more alike."""
    shares: Floats = np.arange(1 + shift, keys + 1 + shift, dtype=np.float64) ** -exponent
    shares /= shares.sum()
    return shares


def zipf_window(records: int, keys: int, exponent: float, random: np.random.Generator) -> Window:
    """ZIPF of the KIP paper: independent records of a Zipf distribution."""
    return window_of(random_keys(keys, random), random.multinomial(records, zipf(keys, exponent)))


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
    """LFM: tags of music listening records, which come in sessions and therefore in bursts.

    Each of the `artists` has five of the `distinct` tags, drawn from a Zipf distribution, and a popularity by Zipf's
    law. In a session a user listens to one artist, `session` times on average; every record carries one of the
    artist's tags. In every batch a tenth of the artists trade their popularity: releases, festivals, obituaries.
    """
    random = np.random.default_rng(seed)
    keys = random_keys(distinct, random)
    tags_of = random.choice(distinct, (artists, 5), p=zipf(distinct, exponent))
    popularity = zipf(artists, 0.7)
    for _ in range(batches):
        trading = random.choice(artists, artists // 10, replace=False)
        popularity[trading] = popularity[random.permutation(trading)]
        sessions = random.choice(artists, int(size / session), p=popularity)
        lengths = random.multinomial(size, random.dirichlet(np.ones(len(sessions))))
        artist = np.repeat(sessions, lengths)
        tag = tags_of[artist, random.integers(5, size=size)]
        yield window_of(keys, np.bincount(tag, minlength=distinct))


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

    The logarithm of a topic's activity is an autoregressive process with standard deviation `swing` and coefficient
    `memory` per minute. Tweets are a Poisson process with a mean of `rate` per minute.
    """
    random = np.random.default_rng(seed)
    keys = random_keys(distinct, random)
    base, topic = zipf(distinct, exponent), random.integers(topics, size=distinct)
    activity = random.normal(0.0, swing, topics)
    for _ in range(windows):
        shares = base * np.exp(activity)[topic]
        yield window_of(keys, random.poisson(rate * shares / shares.sum()))
        news = random.normal(0.0, swing, topics)
        activity = memory * activity + np.sqrt(1.0 - memory**2) * news


def substreams(shares: Floats, windows: int, rate: float, *, seed: int) -> Iterator[Histogram]:
    """S1 and S2 of Guo and Zhou: every key value is its own substream, and tuples are a Poisson process.

    The partition function decides which substream gets which number, so the numbers are random.
    """
    random = np.random.default_rng(seed)
    shares = random.permutation(shares)
    keys = one_key_per_bucket(len(shares))
    for _ in range(windows):
        yield Window(keys, random.poisson(rate * shares)).histogram(buckets=len(shares), capacity=0)


def one_key_per_bucket(buckets: int) -> Numbers:
    """One key for each bucket, in the order of the buckets."""
    candidates = np.arange(100 * buckets)
    filled, first = np.unique(buckets_of(hash_keys(candidates), buckets), return_index=True)
    if len(filled) < buckets:
        raise ValueError(f"{len(candidates)} keys leave {buckets - len(filled)} of {buckets} buckets empty")
    return candidates[first]


@dataclass(frozen=True, eq=False)
class Pages:
    """The fetch list of a crawl round: the host of each page, and the seconds that it takes to load."""

    hosts: Numbers
    seconds: Floats


def crawl(rounds: int, pages: int, *, sites: int = 64, growth: float = 1.5, seed: int) -> Iterator[Pages]:
    """Crawl rounds from a list of news sites: a few large sites, and small ones that they link to.

    Sizes and loading times of sites are lognormal. The first round has only the injected sites; later rounds have ten
    times as many more, with a tenth of the pages. Each round fetches `growth` times as many pages as the round
    before, and the last round fetches `pages`.
    """
    random = np.random.default_rng(seed)
    keys = random_keys(11 * sites, random)
    sizes = random.lognormal(0.0, 1.2, 11 * sites)
    sizes[:sites] *= 0.9 / sizes[:sites].sum()
    sizes[sites:] *= 0.1 / sizes[sites:].sum()
    loading = random.lognormal(0.0, 0.5, 11 * sites)
    for turn in range(1, rounds + 1):
        discovered = sites if turn == 1 else 11 * sites
        counts = random.poisson(pages / growth ** (rounds - turn) * sizes[:discovered])
        site = np.repeat(np.arange(discovered), counts)
        yield Pages(keys[site], loading[site] * random.exponential(1.0, len(site)))


@dataclass(frozen=True, eq=False)
class Texts:
    """Crawled texts: the host and the minute of each, and its words."""

    hosts: Numbers
    minutes: Numbers
    bodies: list[str]


WORDS = ("the", "of", "Budapest", "crawl", "Storm", "and", "Spark", "Oslo", "a", "news", "Twitter")


def texts(records: int, *, hosts: int = 400, exponent: float = 1.2, seed: int) -> Texts:
    """Crawled texts for named entity recognition: a few hosts write most of them, and some write longer ones."""
    random = np.random.default_rng(seed)
    host = random.choice(hosts, records, p=zipf(hosts, exponent))
    length = 1 + random.poisson(random.lognormal(5.0, 0.5, hosts)[host])
    vocabulary = np.array(WORDS)
    bodies = [" ".join(vocabulary[random.integers(len(WORDS), size=n)]) for n in length]
    return Texts(random_keys(hosts, random)[host], random.integers(0, 240, records), bodies)
