"""Numbers among a table's properties, as a person wrote them."""

from __future__ import annotations

from collections.abc import Mapping

from icemirror.errors import Invalid

TARGET_FILE_BYTES = "write.target-file-size-bytes"
ROW_GROUP_ROWS = "write.parquet.row-group-limit"
MERGE_FROM_MANIFESTS = "commit.manifest.min-count-to-merge"
TARGET_MANIFEST_BYTES = "commit.manifest.target-size-bytes"

_DEFAULTS = {
    TARGET_FILE_BYTES: 512 << 20,
    ROW_GROUP_ROWS: 1 << 20,
    MERGE_FROM_MANIFESTS: 30,
    TARGET_MANIFEST_BYTES: 8 << 20,
}


def read_number(properties: Mapping[str, str], name: str) -> int:
    """The value of a property, or its default; anything but a number above zero is refused."""
    text = properties.get(name)
    if not text:
        return _DEFAULTS[name]
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise Invalid(
            f"table property {name} is {text!r}, not a whole number above zero. Correct it under table_properties, "
            "and in the mirror if it exists."
        )
    return number


def check_numbers(properties: Mapping[str, str]) -> None:
    """Refuses properties that the first write would stumble over."""
    for name in _DEFAULTS:
        read_number(properties, name)
