"""How a mistake is planted around the product while a seed runs, never in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

Change = tuple[Any, str, Callable[[Any], Any]]


@dataclass(frozen=True)
class Bug:
    """What is changed: an attribute of the product, by a function of what it was."""

    changes: tuple[Change, ...]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The product with the mistake in it."""
        with ExitStack() as stack:
            for owner, name, change in self.changes:
                stack.enter_context(patch.object(owner, name, change(getattr(owner, name))))
            yield


BUGS: dict[str, Bug] = {}


def plant(*places: tuple[Any, str], name: str = "") -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Registers a mistake under the name of the function that makes it."""

    def register(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
        called = name or change.__name__.replace("_", " ")
        BUGS[called] = Bug(tuple((owner, attribute, change) for owner, attribute in places))
        return change

    return register


def instead(value: Any) -> Callable[[Any], Any]:
    """Always this value."""
    return lambda _old: lambda *_arguments, **_named: value
