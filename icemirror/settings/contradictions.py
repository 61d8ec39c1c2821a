"""Settings that are valid alone but contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pydantic_core import InitErrorDetails, PydanticCustomError


class Contradiction(NamedTuple):
    """A problem, and the path of the setting to change."""

    path: tuple[str | int, ...]
    message: str


def line_errors(found: Sequence[Contradiction]) -> list[InitErrorDetails]:
    """Return contradictions as pydantic errors, each at its key."""
    return [
        InitErrorDetails(
            type=PydanticCustomError("contradiction", "{message}", {"message": message}), loc=path, input=None
        )
        for path, message in found
    ]


def namespace_problems(path: tuple[str, ...], namespace: str) -> Iterator[Contradiction]:
    """Yield a problem unless the namespace is one or more names separated by dots."""
    if not all(namespace.split(".")):
        yield Contradiction(path, f"{namespace!r} is not a namespace: a name next to a dot is empty")


def repeated(named: Sequence[tuple[str | tuple[str | int, ...], str]]) -> Iterator[Contradiction]:
    """Yield a problem for every repeated name."""
    seen: set[str] = set()
    for path, name in named:
        if name in seen:
            yield Contradiction((path,) if isinstance(path, str) else path, f"{name!r} is listed twice")
        seen.add(name)
