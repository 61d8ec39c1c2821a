"""Values among a table's properties, as a person wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import cast

from pyiceberg.avro.codecs import AvroCompressionCodec

from icemirror.errors import Invalid
from icemirror.mirror_properties import (
    ABOVE_ZERO,
    AN_AVRO_CODEC,
    AVRO_CODEC,
    AVRO_CODECS,
    NUMBERS,
    is_number,
    wrong_properties,
)


def read_number(properties: Mapping[str, str], name: str) -> int:
    """The value of a property, or its default; anything but a number above zero is refused."""
    text = properties.get(name)
    if not text:
        return NUMBERS[name]
    if not is_number(text):
        raise refuse(name, text, ABOVE_ZERO)
    return int(text)


def read_flag(properties: Mapping[str, str], name: str, default: bool) -> bool:
    """A property that is true or false; as for Iceberg Java, whatever is not true is false."""
    text = properties.get(name)
    return default if text is None else text.lower() == "true"


def read_avro_codec(properties: Mapping[str, str]) -> AvroCompressionCodec:
    """How manifests are packed, by Avro's name for it."""
    text = properties.get(AVRO_CODEC) or "gzip"
    codec = AVRO_CODECS.get(text.lower())
    if codec is None or (codec == "snappy" and find_spec("snappy") is None):
        raise refuse(AVRO_CODEC, text, AN_AVRO_CODEC)
    return cast("AvroCompressionCodec", codec)


def refuse(name: str, text: str, expected: str) -> Invalid:
    """The error for a property that cannot be followed."""
    return Invalid(
        f"table property {name} is {text!r}, not {expected}. Correct it under table_properties, "
        "and in the mirror if it exists."
    )


def check_properties(properties: Mapping[str, str]) -> None:
    """Refuses properties that the first write would stumble over."""
    for name, expected in wrong_properties(properties):
        raise refuse(name, properties[name], expected)
    read_avro_codec(properties)
