"""Functions that a job file names: `module:function`, found beside the file or where Python finds modules."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from unskew.jobs.settings import meant


def load_function(name: str, folder: Path) -> Callable[..., Any]:
    """The function; its module may be a file in `folder`. A job file is trusted: this runs the module's code."""
    module_name, _, path = name.partition(":")
    found: Any = _module(module_name, folder)
    for part in path.split("."):
        if not hasattr(found, part):
            hint = meant(part, [known for known in vars(found) if not known.startswith("_")])
            raise ValueError(f"{name}: there is no {part!r} in {module_name}: {hint}".rstrip(": "))
        found = getattr(found, part)
    if not callable(found):
        raise ValueError(f"{name}: this is not a function but {type(found).__name__}")
    made: Callable[..., Any] = found
    return made


def carry_code(folder: Path) -> None:
    """Let functions from modules in `folder` travel to Spark's workers whole: the folder may not be there."""
    from unskew.spark.versions.private import pickle_by_value

    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file is not None and "." not in module.__name__ and folder in Path(file).parents[:2]:
            pickle_by_value(module)


def _module(name: str, folder: Path) -> Any:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ValueError(f"{name}: it imports {error.name!r}, which is not installed") from error
        hint = meant(name, [file.stem for file in folder.glob("*.py")])
        raise ValueError(
            f"there is no module {name!r} in {folder}, nor installed: {hint}".rstrip(": ")
        ) from None
