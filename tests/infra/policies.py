"""Finds faults of a policy and evaluates what it allows, with moto's evaluator as an independent check."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from moto.iam.access_control import IAMPolicyStatement, PermissionResult

from tests.infra.calls import Call

# Lambda reads MSK through interfaces in the cluster's network; EC2 supports no narrower resource for these calls.
ALLOWED_WILDCARDS = {"ReachBrokers"}
DELETE_VERBS = ("Delete", "Remove")
STATE_AND_QUEUE_DELETES = ("dynamodb:DeleteItem", "sqs:DeleteMessage")


def statements(policy: str) -> list[dict[str, Any]]:
    found = json.loads(policy)["Statement"]
    assert isinstance(found, list)
    return found


def faults(role: str, policy: str) -> Iterator[str]:
    """Yield every violation of least privilege."""
    for statement in statements(policy):
        sid = statement["Sid"]
        actions, resources = _listed(statement["Action"]), _listed(statement["Resource"])
        if statement["Effect"] != "Allow" or "NotAction" in statement or "NotResource" in statement:
            yield f"{role} {sid}: must only use Allow, Action and Resource"
        for action in actions:
            if "*" in action:
                yield f"{role} {sid}: the action {action} has a wildcard"
            deletes = action.partition(":")[2].startswith(DELETE_VERBS)
            ours = action in STATE_AND_QUEUE_DELETES or action.startswith("ec2:")
            if deletes and role != "maintenance" and not ours:
                yield f"{role} {sid}: {action}: only maintenance can delete"
            if action.startswith("s3:") and role == "trigger":
                yield f"{role} {sid}: the trigger must not read objects"
        if sid not in ALLOWED_WILDCARDS:
            yield from (f"{role} {sid}: {found}" for resource in resources if (found := _too_wide(resource)))
        if "iam:PassRole" in actions and "iam:PassedToService" not in json.dumps(
            statement.get("Condition", {})
        ):
            yield f"{role} {sid}: the role can be passed to any service"


def _too_wide(arn: str) -> str | None:
    """Return the fault of a resource; a wildcard is allowed only at the end, below a name."""
    parts = arn.split(":", 5)
    if len(parts) < 6 or parts[0] != "arn":
        return f"the resource {arn} is not an ARN"
    service, name = parts[2], parts[5]
    if any("*" in part for part in parts[:5]):
        return f"the resource {arn} is in any account or region"
    if "*" in name and (not name.endswith("*") or name.count("*") > 1):
        return f"the resource {arn} has a wildcard inside"
    prefix = name.rstrip("*").rstrip("/")
    if service == "s3" and "*" in name and "/" not in prefix:
        return f"the resource {arn} is a whole bucket"
    if service == "glue" and name in ("*", "table/*", "database/*"):
        return f"the resource {arn} is the whole catalog"
    return f"the resource {arn} names nothing" if not prefix else None


def allows(policy: str, action: str, resource: str, conditions: Mapping[str, str] | None = None) -> bool:
    """Return whether the policy allows an action on a resource."""
    return allows_call(policy, Call(action, resource, tuple((conditions or {}).items())))


def allows_call(policy: str, call: Call) -> bool:
    """Return whether any statement allows the call; no statement denies (see `faults`)."""
    return any(grants(statement, call) for statement in statements(policy))


def grants(statement: Mapping[str, Any], call: Call) -> bool:
    """Return whether a statement allows the call.

    Conditions are evaluated here: moto supports one kind and treats a missing context value as a match.
    """
    if not _holds(statement.get("Condition", {}), dict(call.context)):
        return False
    bare = {name: value for name, value in statement.items() if name != "Condition"}
    result = IAMPolicyStatement(bare).is_action_permitted(call.action, call.resource)
    return bool(result == PermissionResult.PERMITTED)


def _holds(condition: Mapping[str, Mapping[str, str | list[str]]], context: Mapping[str, str]) -> bool:
    for operator, wanted in condition.items():
        for name, values in wanted.items():
            match operator:
                case "StringEquals":
                    holds = context.get(name) in _listed(values)
                case "StringLike":
                    holds = any(_is_like(context.get(name), pattern) for pattern in _listed(values))
                case _:
                    raise AssertionError(f"unsupported condition operator {operator}")
            if not holds:
                return False
    return True


def _is_like(value: str | None, pattern: str) -> bool:
    parts = (re.escape(part) for part in pattern.split("*"))
    return value is not None and re.fullmatch(".*".join(parts), value, re.DOTALL) is not None


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
