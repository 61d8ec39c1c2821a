"""A configuration packed into an environment variable (for functions) or arguments (for jobs)."""

from __future__ import annotations

import base64
import binascii
import gzip
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from icemirror.config_file.find import DEFAULT_NAME
from icemirror.errors import BadConfig, Invalid

PACKED_CONFIG_VARIABLE = "ICEMIRROR_CONFIG_PACKED"
"""Contains the file's text, compressed and encoded as by Terraform's `base64gzip`."""

_MAX_BYTES = 1 << 20
_MAX_ARGUMENT_CHARACTERS = 60_000  # the limit of Linux is 128 KiB


def unpack_config(environ: Mapping[str, str], folder: Path) -> Path | None:
    """Write the configuration from the environment into the folder and return its path; None if there is none."""
    packed = environ.get(PACKED_CONFIG_VARIABLE)
    if not packed:
        return None
    path = folder / DEFAULT_NAME
    path.write_text(_unpack(packed), encoding="utf-8")
    return path


def _unpack(packed: str) -> str:
    try:
        reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        text = reader.decompress(base64.b64decode(packed, validate=True), _MAX_BYTES)
        if not reader.eof:
            raise BadConfig(f"${PACKED_CONFIG_VARIABLE}: incomplete, or longer than {_MAX_BYTES >> 20} MB")
        return text.decode()
    except (binascii.Error, zlib.error, UnicodeDecodeError) as error:
        raise BadConfig(f"${PACKED_CONFIG_VARIABLE}: expected gzipped text in base64: {error}") from None


def pack_config(text: str) -> str:
    """Return the value of the variable for a file's text."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def pack_arguments(text: str) -> tuple[str, ...]:
    """Return the text as arguments. Equal texts give equal arguments, because a repeated launch must be identical."""
    packed = pack_config(text)
    return tuple(
        packed[start : start + _MAX_ARGUMENT_CHARACTERS]
        for start in range(0, len(packed), _MAX_ARGUMENT_CHARACTERS)
    )


def unpack_arguments(arguments: Sequence[str]) -> str:
    """Return the text from the arguments of `pack_arguments`."""
    try:
        return gzip.decompress(base64.b64decode("".join(arguments), validate=True)).decode()
    except (binascii.Error, OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise Invalid(
            f"cannot read the configuration in the job's arguments: {error}. Check that trigger and job are of the "
            "same release"
        ) from None
