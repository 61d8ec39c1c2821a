"""Settings that are right alone and wrong together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pydantic_core import InitErrorDetails, PydanticCustomError


class Contradiction(NamedTuple):
    """What is wrong, and the path of the setting to change."""

    path: tuple[str | int, ...]
    message: str


def line_errors(found: Sequence[Contradiction]) -> list[InitErrorDetails]:
    """Contradictions in the form that pydantic merges into its own report, each at its own key."""
    return [
        InitErrorDetails(
            type=PydanticCustomError("contradiction", "{message}", {"message": message}), loc=path, input=None
        )
        for path, message in found
    ]


def namespace_problems(path: tuple[str, ...], namespace: str) -> Iterator[Contradiction]:
    """A namespace is one or more names with dots between them."""
    if not all(namespace.split(".")):
        yield Contradiction(path, f"{namespace!r} is not a namespace: an empty name beside a dot")


def repeated(named: Sequence[tuple[str | tuple[str | int, ...], str]]) -> Iterator[Contradiction]:
    """A contradiction for every name that stood before."""
    seen: set[str] = set()
    for path, name in named:
        if name in seen:
            yield Contradiction((path,) if isinstance(path, str) else path, f"{name!r} is given twice")
        seen.add(name)
