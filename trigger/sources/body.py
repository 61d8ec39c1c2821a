"""The body of an event: bounded before it is read, and read once."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from trigger.sources.refused import Reason, Refused

Document = Mapping[str, Any]
"""An event as JSON: its values are of any type until a source's model has read them."""

MOST_BYTES = 64 * 1024
MOST_DEPTH = 16

# A string (perhaps without its end), or a bracket outside of strings.
_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|([\[{])|([\]}])', re.DOTALL)


def read_body(body: bytes) -> Document:
    """The JSON object in a body; `Refused` where it is too large, too deep or none."""
    if len(body) > MOST_BYTES:
        raise Refused(Reason.TOO_LARGE, f"the event has {len(body)} bytes; at most {MOST_BYTES} are read")
    if _depth(body) > MOST_DEPTH:
        raise Refused(Reason.TOO_DEEP, f"the event is nested more than {MOST_DEPTH} levels deep")
    try:
        document = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):  # also where a number has too many digits, or the text is not UTF-8
        raise Refused(Reason.MALFORMED, "the event is not JSON") from None
    if not isinstance(document, dict):
        raise Refused(Reason.MALFORMED, "the event is JSON, but no object")
    return document


def _depth(body: bytes) -> int:
    depth = deepest = 0
    for found in _BRACKET.finditer(body):
        if found[1]:
            depth += 1
            deepest = max(deepest, depth)
        elif found[2]:
            depth -= 1
    return deepest


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
