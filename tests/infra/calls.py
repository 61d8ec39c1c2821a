"""A call to AWS, as IAM evaluates it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Call:
    """An action on a resource, with the context keys of the request."""

    action: str
    resource: str
    context: tuple[tuple[str, str], ...] = ()

    @classmethod
    def unknown(cls, service: str, request: str) -> Call:
        """Return a call for an unrecognised request, which no policy allows."""
        return cls(f"{service}:?", request)
