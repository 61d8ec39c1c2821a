"""A configuration that travels in an environment variable: for functions that are made without a file of their own."""

from __future__ import annotations

import base64
import binascii
import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path

from icemirror.errors import BadConfig
from icemirror.settings.find import DEFAULT_NAME

VARIABLE = "ICEMIRROR_CONFIG_PACKED"
"""Holds the file's text, gzipped and in base64, as Terraform's `base64gzip` writes it."""

_MOST_BYTES = 1 << 20


def unpack_config(environ: Mapping[str, str], folder: Path) -> Path | None:
    """The file that was in the environment, written into the folder; None if there was none."""
    packed = environ.get(VARIABLE)
    if not packed:
        return None
    path = folder / DEFAULT_NAME
    path.write_text(_text(packed), encoding="utf-8")
    return path


def _text(packed: str) -> str:
    try:
        reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        text = reader.decompress(base64.b64decode(packed, validate=True), _MOST_BYTES)
        if not reader.eof:
            raise BadConfig(f"${VARIABLE}: cut short, or longer than {_MOST_BYTES >> 20} MB")
        return text.decode()
    except (binascii.Error, zlib.error, UnicodeDecodeError) as error:
        raise BadConfig(f"${VARIABLE}: expected a file's text, gzipped and in base64: {error}") from None


def pack_config(text: str) -> str:
    """What to put into the variable for a file's text."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
