"""The base of all sections: frozen, unknown keys refused, secrets masked, problems reported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Self, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from icemirror.settings.masking import mask_properties, mask_tree, mask_url
from icemirror.settings.setting_problems import SettingProblem, to_pydantic_errors

Name = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
"""Text that must not be empty."""

Url = Annotated[Name, PlainSerializer(mask_url, return_type=str)]
"""A URL; a password in it is masked."""


def _property_text(value: object) -> str:
    match value:
        case str():
            return str(value)
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case None:
            raise ValueError("has no value")
        case _:
            raise ValueError("expected one plain value")


Properties = Annotated[
    dict[Name, Annotated[str, BeforeValidator(_property_text)]],
    PlainSerializer(mask_properties, return_type=dict[str, str]),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {"type": ["string", "number", "boolean"]},
            "x-type": "properties",
        }
    ),
]
"""Properties passed on as text; those with a name like a secret are masked."""


class PlainScalar(str):
    """An unquoted YAML scalar that YAML reads as a number or boolean, with that value.

    A `str`, because most settings use the text as written: `1.10` as a version, `no` as a name.
    """

    value: bool | int | float


def with_yaml_types(value: object) -> object:
    """Return a part of the document with numbers and booleans as YAML reads them, for values passed through."""
    match value:
        case PlainScalar():
            return value.value
        case dict():
            return {key: with_yaml_types(item) for key, item in value.items()}
        case list():
            return [with_yaml_types(item) for item in value]
        case _:
            return value


class Section(BaseModel):
    """One mapping of the configuration file."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _null_means_default(cls, data: object) -> object:
        """Treat an empty key such as `job:` as absent; null stays if it is a valid value."""
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None or cls._allows_null(key)}

    @classmethod
    def _allows_null(cls, key: object) -> bool:
        field = cls.model_fields.get(key) if isinstance(key, str) else None
        return field is None or type(None) in get_args(field.annotation)

    @model_validator(mode="after")
    def _refuse_problems(self) -> Self:
        problems = list(self.problems())
        if problems:
            raise ValidationError.from_exception_data(
                type(self).__name__, to_pydantic_errors(problems), hide_input=True
            )
        return self

    def problems(self) -> Iterator[SettingProblem]:
        """Yield the problems of this section that its fields alone do not show."""
        return iter(())

    def __repr_args__(self) -> Iterator[tuple[str | None, object]]:
        for name, value in super().__repr_args__():
            yield name, mask_tree(value) if isinstance(value, str | dict) else value
