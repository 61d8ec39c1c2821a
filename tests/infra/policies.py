"""What is wrong with a policy, and what it allows: by moto's evaluator, which knows nothing of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from moto.iam.access_control import IAMPolicyStatement, PermissionResult

from tests.infra.calls import Call

# Lambda reads MSK through interfaces in the cluster's network; EC2 has no narrower resource for these calls.
WILDCARDS_WITH_A_REASON = {"ReachBrokers"}
ONLY_MAINTENANCE = ("Delete", "Remove")
OF_STATE_AND_QUEUE = ("dynamodb:DeleteItem", "sqs:DeleteMessage")


def statements(policy: str) -> list[dict[str, Any]]:
    found = json.loads(policy)["Statement"]
    assert isinstance(found, list)
    return found


def faults(role: str, policy: str) -> Iterator[str]:
    """Everything that least privilege forbids."""
    for statement in statements(policy):
        sid = statement["Sid"]
        actions, resources = _listed(statement["Action"]), _listed(statement["Resource"])
        if statement["Effect"] != "Allow" or "NotAction" in statement or "NotResource" in statement:
            yield f"{role} {sid}: says what is not allowed, and so allows the rest"
        for action in actions:
            if "*" in action:
                yield f"{role} {sid}: the action {action} is a wildcard"
            deletes = action.partition(":")[2].startswith(ONLY_MAINTENANCE)
            ours = action in OF_STATE_AND_QUEUE or action.startswith("ec2:")
            if deletes and role != "maintenance" and not ours:
                yield f"{role} {sid}: {action}, which is for maintenance alone"
            if action.startswith("s3:") and role == "trigger":
                yield f"{role} {sid}: the trigger reads no objects"
        if sid not in WILDCARDS_WITH_A_REASON:
            yield from (f"{role} {sid}: {found}" for one in resources if (found := _too_wide(one)))
        if "iam:PassRole" in actions and "iam:PassedToService" not in json.dumps(
            statement.get("Condition", {})
        ):
            yield f"{role} {sid}: the role may be passed to anyone"


def _too_wide(arn: str) -> str | None:
    """A resource may end in a wildcard below a name, and not before one."""
    parts = arn.split(":", 5)
    if len(parts) < 6 or parts[0] != "arn":
        return f"the resource {arn} is no ARN"
    service, name = parts[2], parts[5]
    if any("*" in part for part in parts[:5]):
        return f"the resource {arn} is of any account or region"
    if "*" in name and (not name.endswith("*") or name.count("*") > 1):
        return f"the resource {arn} has a wildcard inside"
    held = name.rstrip("*").rstrip("/")
    if service == "s3" and "*" in name and "/" not in held:
        return f"the resource {arn} is a whole bucket"
    if service == "glue" and name in ("*", "table/*", "database/*"):
        return f"the resource {arn} is the whole catalog"
    return f"the resource {arn} names nothing" if not held else None


def allows(policy: str, action: str, resource: str, conditions: Mapping[str, str] | None = None) -> bool:
    """Is this call of the role's allowed?"""
    return allows_call(policy, Call(action, resource, tuple((conditions or {}).items())))


def allows_call(policy: str, call: Call) -> bool:
    """By any statement; there are none that deny (`faults`)."""
    return any(grants(statement, call) for statement in statements(policy))


def grants(statement: Mapping[str, Any], call: Call) -> bool:
    """Does this statement allow it? Conditions are judged here: moto knows one kind, and grants what is not told."""
    if not _holds(statement.get("Condition", {}), dict(call.context)):
        return False
    bare = {name: value for name, value in statement.items() if name != "Condition"}
    result = IAMPolicyStatement(bare).is_action_permitted(call.action, call.resource)
    return bool(result == PermissionResult.PERMITTED)


def _holds(condition: Mapping[str, Mapping[str, str | list[str]]], told: Mapping[str, str]) -> bool:
    for operator, wanted in condition.items():
        for name, values in wanted.items():
            match operator:
                case "StringEquals":
                    fits = told.get(name) in _listed(values)
                case "StringLike":
                    fits = any(_is_like(told.get(name), value) for value in _listed(values))
                case _:
                    raise AssertionError(f"nobody knows how {operator} is judged")
            if not fits:
                return False
    return True


def _is_like(told: str | None, pattern: str) -> bool:
    parts = (re.escape(part) for part in pattern.split("*"))
    return told is not None and re.fullmatch(".*".join(parts), told, re.DOTALL) is not None


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
