"""Which file configures this run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from icemirror.errors import BadConfig

DEFAULT_NAME = "icemirror.yaml"
_VARIABLES = ("ICEMIRROR_CONFIG", "CONFIG_FILE")

EXAMPLE = """\
iceberg:
  catalog:
    type: sql
    uri: sqlite:///${HOME}/lake/catalog.db
    warehouse: file://${HOME}/lake/warehouse
tables:
  - namespace: shop
    changelog_table: orders_changelog
    mirror_table: orders
    primary_keys: [id]
"""


def find_config(explicit: str | None, environ: Mapping[str, str]) -> Path:
    """The given file, else the environment's, else `./icemirror.yaml`."""
    if explicit is not None and not explicit.strip():
        raise BadConfig("--config names no file: is a variable empty?")
    for text, origin in [(explicit, "--config"), *((environ.get(name), f"${name}") for name in _VARIABLES)]:
        if text:
            path = Path(text)
            if not _exists(path):
                raise BadConfig(f"{text}: there is no such file (from {origin})")
            return path
    path = Path(DEFAULT_NAME)
    if not _exists(path):
        raise BadConfig(
            "no configuration: give one with -c FILE or $ICEMIRROR_CONFIG, "
            f"or write ./{DEFAULT_NAME}, such as\n\n{EXAMPLE}"
        )
    return path


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # a folder on the way that may not be looked into, say
        raise BadConfig(f"{path}: cannot be read: {error.strerror}") from None
