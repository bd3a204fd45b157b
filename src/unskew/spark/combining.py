"""Which aggregates Spark combines before the shuffle, so that skew does not hurt them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

_COMBINING = frozenset(
    """any_value approx_count_distinct avg bit_and bit_or bit_xor bool_and bool_or corr count count_if covar_pop
    covar_samp every first first_value kurtosis last last_value max mean min skewness some std stddev stddev_pop
    stddev_samp sum try_avg try_sum var_pop var_samp variance""".split()  # noqa: SIM905 (readable)
)
"""Aggregates with small partial results: Spark combines them before the shuffle, so a hot key is one row per map task.
With DISTINCT it shuffles by key and value first, which spreads a hot key, too."""


def combines(expr: Column | dict[str, str]) -> bool:
    """Whether Spark combines every aggregate in the expression before the shuffle.

    Judged by the text of the expression. An unknown name counts as one that does not combine, which is
    never wrong, only slower.

    >>> combines({"x": "sum"}), combines({"x": "collect_list"})
    (True, False)
    """
    names = expr.values() if isinstance(expr, dict) else re.findall(r"([A-Za-z_]\w*)\(", str(expr))
    return bool(names) and {name.lower() for name in names} <= _COMBINING
