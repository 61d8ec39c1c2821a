"""What the models of all sources share: strict, bounded, and silent about what they were given."""

from __future__ import annotations

import re
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import PydanticCustomError

from trigger.sources.body import Document
from trigger.sources.refused import Reason, Refused

MOST_RECORDS = 1000
MOST_LEVELS = 32

# Control characters, and halves of surrogate pairs, which no store and no log could encode.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def is_plain(text: str) -> bool:
    """Text without control characters that can be written as UTF-8."""
    return _UNPRINTABLE.search(text) is None


def _plain(text: str) -> str:
    if not is_plain(text):
        # Not a ValueError: pydantic would keep it with its traceback, a cycle that is never collected.
        raise PydanticCustomError("control_characters", "has control characters")
    return text


Text = Annotated[str, StringConstraints(min_length=1, max_length=1024), AfterValidator(_plain)]
"""A name: not empty, not long, no control characters."""

Levels = Annotated[list[Text], Field(min_length=1, max_length=MOST_LEVELS)]
"""A namespace, or a table's whole name, level by level."""


class Told(BaseModel):
    """A part of an event. Of what else is in there nothing is read."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="ignore", hide_input_in_errors=True, defer_build=True
    )


Model = TypeVar("Model", bound=Told)


def read_as(model: type[Model], document: Document, kind: str) -> Model:
    """The event as its source's model; `Refused` says which field is wrong, and never what it holds."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)[0]
        # A key in the path may be the sender's own text; the fields of our models are plain words.
        path = ".".join(str(part) for part in wrong["loc"] if isinstance(part, int) or part.isascii())[:120]
        raise Refused(Reason.MALFORMED, f"malformed {kind}: {path}: {wrong['msg']}") from None


def dotted(name: str) -> tuple[str, ...]:
    """`a.b.t` by level; `Refused` where a level is empty."""
    levels = tuple(name.split("."))
    if not all(levels):
        raise Refused(Reason.MALFORMED, "the table's name has an empty level")
    return levels
