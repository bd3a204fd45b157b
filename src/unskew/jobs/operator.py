"""`[operator]`: what a job does for each key."""

from __future__ import annotations

from dataclasses import dataclass

from unskew.jobs.aggregates import AggregateSettings, read_aggregates
from unskew.jobs.settings import function_name, names, one_of, setting, text


@dataclass(frozen=True)
class OperatorSettings:
    """A key, and what is done for each of its values: aggregates, or a function of the user's."""

    key: tuple[str, ...] = setting(names)
    aggregates: tuple[AggregateSettings, ...] = setting(read_aggregates, ())
    update: str | None = setting(function_name, None, only="stream")
    update_each: str | None = setting(function_name, None, only="stream")
    apply: str | None = setting(function_name, None, only="batch")
    merge: str | None = setting(function_name, None, only="batch")
    output: str | None = setting(text, None)
    state: str | None = setting(text, None, only="stream")
    expired: str | None = setting(function_name, None, only="stream")
    ttl: str | None = setting(text, None, only="stream")
    window: str | None = setting(text, None, only="stream")
    slide: str | None = setting(text, None, only="stream")
    emit: str | None = setting(one_of("changed", "closed"), None, only="stream")

    def __post_init__(self) -> None:
        actions = [name for name in ("aggregates", "update", "update_each", "apply") if getattr(self, name)]
        if len(actions) != 1:
            problem = f"not both {' and '.join(actions)}" if actions else "there is none"
            raise ValueError(
                "aggregates: say what to do for each key: either aggregates or one function "
                f"(update or update_each of a stream, apply of a batch job), {problem}"
            )
        action = actions[0]
        if action == "aggregates":
            self._refuse(("output", "state", "expired", "merge"), action)
            return
        self._refuse(("window", "slide", "emit"), action)
        if self.output is None:
            raise ValueError(
                f"output: {action} needs the columns that the function returns, like 'user string, n long'"
            )
        if self.state is None and self.apply is None:
            raise ValueError(f"state: {action} needs the columns of a key's state, like 'n long'")

    @property
    def functions(self) -> list[str]:
        """The names of the functions that the operator calls."""
        names = (self.update, self.update_each, self.apply, self.merge, self.expired)
        return [name for name in names if name is not None]

    def _refuse(self, names: tuple[str, ...], action: str) -> None:
        for name in names:
            if getattr(self, name) is not None:
                raise ValueError(f"{name}: this does not go with {action}: leave it out")

    def __str__(self) -> str:
        action = ", ".join(map(str, self.aggregates)) or str(self.update or self.update_each or self.apply)
        times = [
            f"{name} {getattr(self, name)}" for name in ("window", "slide", "ttl") if getattr(self, name)
        ]
        return "; ".join([f"by {', '.join(self.key)}: {action}", *times])
