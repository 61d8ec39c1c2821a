"""The name of an Iceberg table: namespace levels and a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, order=True)
class TableId:
    """A table's dotted name, split into namespace and name."""

    namespace: tuple[str, ...]
    name: str

    @classmethod
    def parse(cls, dotted: str) -> Self:
        """Return namespace (a, b) and name t for `a.b.t`; raise `ValueError` for a name without a namespace."""
        *namespace, name = dotted.split(".")
        if not namespace or not name or not all(namespace):
            raise ValueError(f"{dotted!r} is not a table name: expected namespace.table")
        return cls(tuple(namespace), name)

    @property
    def parts(self) -> tuple[str, ...]:
        """The identifier in PyIceberg's form."""
        return (*self.namespace, self.name)

    def __str__(self) -> str:
        return ".".join(self.parts)
