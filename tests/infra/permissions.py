"""What of a policy is used by calls that were recorded, and what a policy is without a part of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.infra.calls import Call
from tests.infra.policies import grants, statements


@dataclass(frozen=True, order=True)
class Permission:
    """An action or a resource of a statement: what could be left out by itself."""

    sid: str
    part: str


def unused(policy: str, calls: Iterable[Call]) -> set[Permission]:
    """What none of the calls needs."""
    made = list(calls)
    return {
        Permission(statement["Sid"], part)
        for statement in statements(policy)
        for name in ("Action", "Resource")
        for part in statement[name]
        if not any(grants({**statement, name: [part]}, call) for call in made)
    }


def parts_of(policy: str) -> set[Permission]:
    """Everything that could be left out."""
    return unused(policy, ())


def without(policy: str, permission: Permission) -> str:
    """The policy, had somebody forgotten this."""
    return json.dumps({"Statement": list(_less(statements(policy), permission))})


def _less(all_of_them: Iterable[dict[str, Any]], permission: Permission) -> Iterator[dict[str, Any]]:
    for one in all_of_them:
        if one["Sid"] != permission.sid:
            yield one
            continue
        kept = {
            name: [part for part in one[name] if part != permission.part] for name in ("Action", "Resource")
        }
        if all(kept.values()):
            yield {**one, **kept}
