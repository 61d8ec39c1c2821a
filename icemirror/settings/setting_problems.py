"""Problems of settings that pydantic does not find: contradictions, missing keys, malformed values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pydantic_core import InitErrorDetails, PydanticCustomError


class SettingProblem(NamedTuple):
    """A problem, and the path of the setting to change."""

    path: tuple[str | int, ...]
    message: str


def to_pydantic_errors(problems: Sequence[SettingProblem]) -> list[InitErrorDetails]:
    """Return problems as pydantic errors, each at its key."""
    return [
        InitErrorDetails(
            type=PydanticCustomError("setting_problem", "{message}", {"message": message}),
            loc=path,
            input=None,
        )
        for path, message in problems
    ]


def namespace_problems(path: tuple[str, ...], namespace: str) -> Iterator[SettingProblem]:
    """Yield a problem unless the namespace is one or more names separated by dots."""
    if not all(namespace.split(".")):
        yield SettingProblem(path, f"{namespace!r} is not a namespace: a name next to a dot is empty")


def find_repeated_names(
    names_by_path: Sequence[tuple[str | tuple[str | int, ...], str]],
) -> Iterator[SettingProblem]:
    """Yield a problem for every repeated name."""
    names: set[str] = set()
    for path, name in names_by_path:
        if name in names:
            yield SettingProblem((path,) if isinstance(path, str) else path, f"{name!r} is listed twice")
        names.add(name)
