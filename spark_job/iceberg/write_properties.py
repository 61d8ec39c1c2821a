"""Parses table properties that control writes: numbers, flags, the Avro codec and file locations."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import cast

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.table.locations import LocationProvider, load_location_provider

from icemirror.errors import Invalid
from icemirror.tables.mirror_properties import (
    AVRO_CODEC,
    AVRO_CODECS,
    EXPECTED_AVRO_CODEC,
    EXPECTED_PATH,
    EXPECTED_POSITIVE_NUMBER,
    NUMBERS,
    PATHS,
    invalid_properties,
    is_absolute_path,
    is_number,
)


def read_number(properties: Mapping[str, str], name: str) -> int:
    """Return the value of a property, or its default. Raise `Invalid` if it is not a number above zero."""
    text = properties.get(name)
    if not text:
        return NUMBERS[name]
    if not is_number(text):
        raise invalid_property(name, text, EXPECTED_POSITIVE_NUMBER)
    return int(text)


def read_flag(properties: Mapping[str, str], name: str, default: bool) -> bool:
    """Return the value of a boolean property. As in Iceberg Java, every text other than "true" is false."""
    text = properties.get(name)
    return default if text is None else text.lower() == "true"


def read_avro_codec(properties: Mapping[str, str]) -> AvroCompressionCodec:
    """Return the compression codec of manifests, by Avro's name."""
    text = properties.get(AVRO_CODEC) or "gzip"
    codec = AVRO_CODECS.get(text.lower())
    if codec is None or (codec == "snappy" and find_spec("snappy") is None):
        raise invalid_property(AVRO_CODEC, text, EXPECTED_AVRO_CODEC)
    return cast("AvroCompressionCodec", codec)


def invalid_property(name: str, text: str, expected: str) -> Invalid:
    """Return the error for a property with an invalid value."""
    return Invalid(
        f"table property {name} is {text!r}, not {expected}. Correct it under table_properties, "
        "and in the mirror if it exists."
    )


def check_properties(properties: Mapping[str, str]) -> None:
    """Raise `Invalid` for a property that would make the first write fail."""
    if invalid := next(iter(invalid_properties(properties)), None):
        name, expected = invalid
        raise invalid_property(name, properties[name], expected)
    read_avro_codec(properties)


def file_locations(location: str, properties: Mapping[str, str]) -> LocationProvider:
    """Return PyIceberg's location provider for new files. Raise `Invalid` for a path that is not absolute."""
    for name in PATHS:
        path = properties.get(name)
        if path and not is_absolute_path(path):
            raise invalid_property(name, path, EXPECTED_PATH)
    try:
        return load_location_provider(location, dict(properties))
    except (ValueError, AttributeError) as error:  # an invalid flag; a class that cannot be loaded
        raise Invalid(
            f"the table's properties give no valid file location: {error}. Correct them under table_properties, and in "
            "the mirror if it exists."
        ) from error
