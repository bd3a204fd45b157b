from __future__ import annotations

import numpy as np

from research.papers.generators import crawl, one_key_per_bucket, substreams, tags, texts, with_state, words
from unskew.core.hashing import buckets_of, hash_keys


def test_the_same_seed_gives_the_same_windows_and_another_seed_other_keys() -> None:
    first, again, other = (next(iter(tags(1, 5_000, seed=seed))) for seed in (1, 1, 2))
    assert first.keys.tolist() == again.keys.tolist()
    assert first.counts.tolist() == again.counts.tolist()
    assert not set(first.keys.tolist()) & set(other.keys.tolist())


def test_a_batch_of_tags_has_the_requested_size_and_comes_in_bursts() -> None:
    first, second = tags(2, 20_000, seed=0)
    assert first.counts.sum() == second.counts.sum() == 20_000
    counts = dict(zip(first.keys.tolist(), first.counts.tolist(), strict=True))
    shared = [
        (counts[key], n)
        for key, n in zip(second.keys.tolist(), second.counts.tolist(), strict=True)
        if key in counts
    ]
    before, after = np.array(shared, dtype=np.float64).T
    excess = (before - after) ** 2 / (before + after)
    assert excess.mean() > 3, "independent records would differ only by their noise, which is 1"


def test_state_is_the_number_of_records_in_the_last_windows() -> None:
    batches = list(tags(4, 1_000, seed=0))
    histograms = list(with_state(batches, 2, buckets=64))
    assert [h.total for h in histograms] == [1_000] * 4
    assert [h.total_state for h in histograms] == [1_000, 2_000, 2_000, 2_000]


def test_words_of_a_topic_rise_and_fall_together() -> None:
    totals = [w.counts.sum() for w in words(40, 2_000, distinct=200, seed=0)]
    assert abs(np.mean(totals) - 2_000) < 50, "the rate stays the same, however topics swing"
    shares = np.array([_top_share(swing) for swing in (0.0, 1.0)])
    assert shares[1] > 3 * shares[0]


def _top_share(swing: float) -> float:
    """How much the share of the most frequent word varies from minute to minute."""
    windows = list(words(40, 20_000, distinct=200, topics=5, swing=swing, seed=3))
    key = windows[0].keys[windows[0].counts.argmax()]
    return float(np.std([w.counts[w.keys == key].sum() / w.counts.sum() for w in windows]))


def test_every_substream_is_a_bucket() -> None:
    assert buckets_of(hash_keys(one_key_per_bucket(100)), 100).tolist() == list(range(100))
    shares = np.arange(1, 11) / 55
    (window,) = substreams(shares, 1, 55_000, seed=0)
    assert len(window.hashes) == 0
    assert np.allclose(np.sort(window.rest.weights), np.arange(1, 11) * 1000, rtol=0.15)


def test_a_crawl_begins_with_the_injected_sites_and_grows() -> None:
    rounds = list(crawl(4, 5_000, sites=16, seed=0))
    sizes = [len(pages.hosts) for pages in rounds]
    assert sizes == sorted(sizes)
    assert len(np.unique(rounds[0].hosts)) <= 16 < len(np.unique(rounds[-1].hosts))
    assert all((pages.seconds > 0).all() for pages in rounds)


def test_some_hosts_write_most_of_the_texts() -> None:
    drawn = texts(2_000, seed=0)
    _, counts = np.unique(drawn.hosts, return_counts=True)
    assert counts.max() > 0.15 * 2_000
    assert len(drawn.bodies) == len(drawn.minutes) == 2_000
