"""Functions that a job file names: `module:function`, beside the job file or where Python finds modules."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from unskew.jobs.settings import did_you_mean


def load_function(name: str, folder: Path) -> Callable[..., Any]:
    """The function; its module may be a file in `folder`. A job file is trusted: this runs the module's code."""
    module_name, _, path = name.partition(":")
    value: Any = _import(module_name, folder)
    for attribute in path.split("."):
        if not hasattr(value, attribute):
            hint = did_you_mean(attribute, [public for public in vars(value) if not public.startswith("_")])
            raise ValueError(f"{name}: there is no {attribute!r} in {module_name}: {hint}".rstrip(": "))
        value = getattr(value, attribute)
    if not callable(value):
        raise ValueError(f"{name}: this is not a function but {type(value).__name__}: name a function")
    function: Callable[..., Any] = value
    return function


def carry_code(folder: Path) -> None:
    """Ship modules of `folder` whole to Spark's workers, which may not have the folder."""
    from unskew.spark.versions.private import pickle_by_value

    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file is not None and "." not in module.__name__ and folder in Path(file).parents[:2]:
            pickle_by_value(module)


def _import(name: str, folder: Path) -> Any:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ValueError(
                f"{name}: it imports {error.name!r}, which is not installed: install it here"
            ) from error
        hint = did_you_mean(name, [file.stem for file in folder.glob("*.py")])
        raise ValueError(
            f"there is no module {name!r} in {folder}, nor installed: {hint}".rstrip(": ")
        ) from None
