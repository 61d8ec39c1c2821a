"""Plants defects in the product while a seed runs, by patching its functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

Change = tuple[Any, str, Callable[[Any], Any]]


@dataclass(frozen=True)
class PlantedDefect:
    """Attributes of the product, each with a function that returns a defective replacement."""

    changes: tuple[Change, ...]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Run the product with the defect."""
        with ExitStack() as stack:
            for owner, name, change in self.changes:
                stack.enter_context(patch.object(owner, name, change(getattr(owner, name))))
            yield


PLANTED: dict[str, PlantedDefect] = {}


def plant(
    *targets: tuple[Any, str], name: str = ""
) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Register a defect under the name of the decorated function."""

    def register(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
        label = name or change.__name__.replace("_", " ")
        PLANTED[label] = PlantedDefect(tuple((owner, attribute, change) for owner, attribute in targets))
        return change

    return register


def instead(value: Any) -> Callable[[Any], Any]:
    """Return a defect: the function always returns this value."""
    return lambda _original: lambda *_arguments, **_named: value
