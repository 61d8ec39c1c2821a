"""Plants mistakes in the product while a seed runs, by patching its functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

Change = tuple[Any, str, Callable[[Any], Any]]


@dataclass(frozen=True)
class PlantedMistake:
    """Attributes of the product, each with a function that turns the right one into a wrong one."""

    changes: tuple[Change, ...]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Run the product with the mistake."""
        with ExitStack() as stack:
            for owner, name, change in self.changes:
                stack.enter_context(patch.object(owner, name, change(getattr(owner, name))))
            yield


PLANTED: dict[str, PlantedMistake] = {}


def plant(*places: tuple[Any, str], name: str = "") -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Register a mistake under the name of the function that makes it."""

    def register(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
        called = name or change.__name__.replace("_", " ")
        PLANTED[called] = PlantedMistake(tuple((owner, attribute, change) for owner, attribute in places))
        return change

    return register


def instead(value: Any) -> Callable[[Any], Any]:
    """Return a mistake that always returns this value."""
    return lambda _old: lambda *_arguments, **_named: value
