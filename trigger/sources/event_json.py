"""Event bodies as JSON: bounded before parsing, validated strictly, never quoted in an error."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import PydanticCustomError

from trigger.sources.refusal import EventRefused, RefusalReason

Document = Mapping[str, Any]
"""A JSON object; its values have any type until a source's model has validated them."""

MAX_EVENT_BYTES = 64 * 1024
MAX_EVENT_DEPTH = 16
MAX_RECORDS = 1000
MAX_NAME_LEVELS = 32

# A string (possibly unterminated), or a bracket outside of strings.
_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|([\[{])|([\]}])', re.DOTALL)
# Control characters, and lone surrogates, which neither a store nor a log can encode.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def parse_body(body: bytes) -> Document:
    """Return the JSON object of a body. Raise `EventRefused` if it is too large, too deep or not an object."""
    if len(body) > MAX_EVENT_BYTES:
        raise EventRefused(
            RefusalReason.TOO_LARGE, f"the event has {len(body)} bytes; the limit is {MAX_EVENT_BYTES}"
        )
    if _depth(body) > MAX_EVENT_DEPTH:
        raise EventRefused(
            RefusalReason.TOO_DEEP, f"the event is nested more than {MAX_EVENT_DEPTH} levels deep"
        )
    try:
        document = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):  # also a number with too many digits, or text that is not UTF-8
        raise EventRefused(RefusalReason.MALFORMED, "the event is not JSON") from None
    if not isinstance(document, dict):
        raise EventRefused(RefusalReason.MALFORMED, "the event is not a JSON object")
    return document


def _depth(body: bytes) -> int:
    depth = deepest = 0
    for bracket in _BRACKET.finditer(body):
        if bracket[1]:
            depth += 1
            deepest = max(deepest, depth)
        elif bracket[2]:
            depth -= 1
    return deepest


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def is_plain(text: str) -> bool:
    """Return whether the text has no control characters and can be written as UTF-8."""
    return _UNPRINTABLE.search(text) is None


def _require_plain(text: str) -> str:
    if not is_plain(text):
        # Not a ValueError: pydantic would keep it with its traceback, a cycle that is never collected.
        raise PydanticCustomError("control_characters", "has control characters")
    return text


Text = Annotated[str, StringConstraints(min_length=1, max_length=1024), AfterValidator(_require_plain)]
"""A name: not empty, bounded, without control characters."""

Levels = Annotated[list[Text], Field(min_length=1, max_length=MAX_NAME_LEVELS)]
"""A namespace or a full table name, level by level."""


class EventModel(BaseModel):
    """Part of an event. Unknown fields are ignored."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="ignore", hide_input_in_errors=True, defer_build=True
    )


Model = TypeVar("Model", bound=EventModel)


def parse_event(model: type[Model], document: Document, event_name: str) -> Model:
    """Return the event as its source's model. `EventRefused` names the invalid field, never its value."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        # A key in the path may be the sender's text; the fields of the models are ASCII.
        path = ".".join(str(part) for part in problem["loc"] if isinstance(part, int) or part.isascii())[:120]
        message = f"malformed {event_name}: {path}: {problem['msg']}"
        raise EventRefused(RefusalReason.MALFORMED, message) from None


def split_name(name: str) -> tuple[str, ...]:
    """Return the levels of `a.b.t`. Raise `EventRefused` if a level is empty."""
    levels = tuple(name.split("."))
    if not all(levels):
        raise EventRefused(RefusalReason.MALFORMED, "the table's name has an empty level")
    return levels
