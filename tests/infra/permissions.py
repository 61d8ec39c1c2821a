"""Compares the permissions of a policy with recorded calls."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.infra.calls import Call
from tests.infra.policies import grants, statements


@dataclass(frozen=True, order=True)
class Permission:
    """An action or a resource of a statement, which could be removed separately."""

    sid: str
    part: str


def unused(policy: str, calls: Iterable[Call]) -> set[Permission]:
    """Return the permissions that none of the calls needs."""
    recorded = list(calls)
    return {
        Permission(statement["Sid"], part)
        for statement in statements(policy)
        for name in ("Action", "Resource")
        for part in statement[name]
        if not any(grants({**statement, name: [part]}, call) for call in recorded)
    }


def permissions_of(policy: str) -> set[Permission]:
    """Return all permissions of a policy."""
    return unused(policy, ())


def without(policy: str, permission: Permission) -> str:
    """Return the policy without one permission."""
    return json.dumps({"Statement": list(_remove(statements(policy), permission))})


def _remove(policy_statements: Iterable[dict[str, Any]], permission: Permission) -> Iterator[dict[str, Any]]:
    for statement in policy_statements:
        if statement["Sid"] != permission.sid:
            yield statement
            continue
        kept = {
            name: [part for part in statement[name] if part != permission.part]
            for name in ("Action", "Resource")
        }
        if all(kept.values()):
            yield {**statement, **kept}
