"""Find the configuration file."""

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
    primary_keys: [id]  # default: the changelog's identifier fields
"""


def find_config(option: str | None, environ: Mapping[str, str]) -> Path:
    """Return the file of `--config`, else the one in the environment, else `./icemirror.yaml`."""
    if option is not None and not option.strip():
        raise BadConfig("--config is empty: give a file name, or check the variable it comes from")
    for file_name, origin in [
        (option, "--config"),
        *((environ.get(name), f"${name}") for name in _VARIABLES),
    ]:
        if file_name:
            path = Path(file_name)
            if not _exists(path):
                raise BadConfig(f"configuration file not found (from {origin}): {file_name}")
            return path
    path = Path(DEFAULT_NAME)
    if not _exists(path):
        raise BadConfig(
            "no configuration file: pass -c FILE, set $ICEMIRROR_CONFIG, "
            f"or create ./{DEFAULT_NAME}, for example\n\n{EXAMPLE}"
        )
    return path


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # for example, a parent folder without permission
        raise BadConfig(f"cannot read the configuration file ({error.strerror}): {path}") from None
