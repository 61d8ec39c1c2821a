"""What IAM is asked about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Call:
    """An action on a resource, and what is told beside it."""

    action: str
    resource: str
    context: tuple[tuple[str, str], ...] = ()

    @classmethod
    def unknown(cls, service: str, asked: str) -> Call:
        """One that no policy allows, since nobody knows what it needs."""
        return cls(f"{service}:?", asked)
