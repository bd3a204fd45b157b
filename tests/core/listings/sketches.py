"""The sketches of the papers, one record at a time in plain loops."""

from collections.abc import Sequence


def lossy_counting(stream: Sequence[int], w: int) -> dict[int, tuple[int, int]]:
    """Gedik, section 4.1.2, "Lossy counting": key → (c_a, c_e), with windows of w records."""
    entries: dict[int, tuple[int, int]] = {}
    for position, key in enumerate(stream):
        i = position // w + 1
        c_a, c_e = entries.get(key, (0, i - 1))
        entries[key] = (c_a + 1, c_e)
        if (position + 1) % w == 0:
            entries = {k: (c_a, c_e) for k, (c_a, c_e) in entries.items() if c_a + c_e > i}
    return entries


def lossy_answer(entries: dict[int, tuple[int, int]], delta: float, epsilon: float, m: int) -> set[int]:
    """Gedik, section 4.1.2: the frequent items when m records were seen."""
    return {key for key, (c_a, _) in entries.items() if c_a >= (delta - epsilon) * m}


def sliding_start(seen: int, W: int, x: int) -> int:
    """Gedik, section 4.1.2, "Handling changes": where the counter in use started after `seen` records.

    A counter starts every W/(x-1) records and is in use from when it holds W until the next one does.
    """
    stride = W // (x - 1)
    return max(0, (seen - W) // stride) * stride


def space_saving(stream: Sequence[int], c: int) -> dict[int, tuple[int, int]]:
    """Metwally et al. (DKG, section 3.1): key → (count, error), in at most c counters.

    Of several smallest counters the one of the largest key goes.
    """
    counters: dict[int, tuple[int, int]] = {}
    for key in stream:
        if key in counters:
            count, error = counters[key]
            counters[key] = (count + 1, error)
        elif len(counters) < c:
            counters[key] = (1, 0)
        else:
            smallest = min(count for count, _ in counters.values())
            victim = max(k for k, (count, _) in counters.items() if count == smallest)
            del counters[victim]
            counters[key] = (smallest + 1, smallest)
    return counters
