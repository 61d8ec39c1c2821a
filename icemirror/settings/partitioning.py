"""Partition expressions of the configuration: `day(ts)`, `bucket[16](id)`, `truncate[4](name)`, `region`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal, Self, get_args

from pydantic import BeforeValidator, InstanceOf, PlainSerializer, WithJsonSchema

from icemirror.similar_names import suggest

Transform = Literal["identity", "year", "month", "day", "hour", "bucket", "truncate"]

_TRANSFORMS: tuple[Transform, ...] = get_args(Transform)
_TRANSFORMS_WITH_ARGUMENT = ("bucket", "truncate")
_CALL = re.compile(r"(?P<transform>[^\[\]()]*)(?:\[(?P<argument>[^\[\]()]*)\])?\((?P<column>[^\[\]()]*)\)")
_MAX_ARGUMENT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One field of a mirror's partition spec."""

    transform: Transform
    argument: int | None
    column: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return bucket, 16, id for `bucket[16](id)`; a bare column name is `identity`."""
        expression = text.strip()
        if expression and not re.search(r"[\[\](),]", expression):
            return cls("identity", None, expression)
        call = _CALL.fullmatch(expression)
        if call is None or not call["column"].strip():
            raise ValueError(f"{text!r} is not a partition: write day(ts), bucket[16](id) or a column's name")
        if "," in call["column"]:
            raise ValueError(f"{text!r} is not a partition: one column, as in bucket[16](id)")
        transform = _parse_transform(call["transform"].strip(), text)
        return cls(transform, _parse_argument(transform, call["argument"], text), call["column"].strip())

    @property
    def name(self) -> str:
        """The partition's name in Iceberg engines."""
        return self.column if self.transform == "identity" else f"{self.column}_{self.transform}"

    def __str__(self) -> str:
        if self.transform == "identity":
            return self.column
        argument = "" if self.argument is None else f"[{self.argument}]"
        return f"{self.transform}{argument}({self.column})"


def _parse_transform(name: str, text: str) -> Transform:
    for transform in _TRANSFORMS:
        if transform == name:
            return transform
    hint = suggest(name, _TRANSFORMS) or f"; use one of {', '.join(_TRANSFORMS)}"
    raise ValueError(f"{text!r}: unknown transform {name!r}{hint}")


def _parse_argument(transform: Transform, argument: str | None, text: str) -> int | None:
    if transform not in _TRANSFORMS_WITH_ARGUMENT:
        if argument is not None:
            raise ValueError(f"{text!r}: {transform} takes no number in brackets")
        return None
    if argument is None:
        raise ValueError(f"{text!r}: {transform} needs a number, as in {transform}[16](column)")
    if not re.fullmatch(r"\d{1,10}", argument.strip(), re.ASCII) or not 1 <= int(argument) <= _MAX_ARGUMENT:
        raise ValueError(
            f"{text!r}: the number of {transform} must be a whole number from 1 to {_MAX_ARGUMENT}"
        )
    return int(argument)


def _parse(value: object) -> PartitionField:
    match value:
        case PartitionField():
            return value
        case str():
            return PartitionField.parse(value)
        case _:
            raise ValueError("expected a partition such as day(ts), bucket[16](id) or a column's name")


PartitionExpression = Annotated[
    InstanceOf[PartitionField],
    BeforeValidator(_parse),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "examples": ["day(created_at)", "bucket[16](id)", "truncate[4](name)", "region"],
            "x-type": "partition",
        }
    ),
]
"""A `PartitionField`, written as an expression."""
