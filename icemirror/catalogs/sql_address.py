"""The file and driver of a SQL catalog from its `uri`, and the errors if they are missing."""

from __future__ import annotations

from pathlib import Path

from icemirror.errors import BadConfig, Transient

_PACKAGES = {
    "MySQLdb": "mysqlclient",
    "psycopg2": "psycopg2-binary",
    "sqlalchemy": "icemirror[job]",
    "thrift": "icemirror[hive]",
}


def sqlite_path(uri: str) -> Path | None:
    """Return the file of a SQLite catalog; None for other databases and for one in memory."""
    dialect, _, rest = uri.partition("://")
    path = rest.partition("?")[0].removeprefix("/")
    return Path(path) if dialect.split("+")[0] == "sqlite" and path not in ("", ":memory:") else None


def missing_file(path: Path) -> Transient:
    """Return the error for a missing SQLite file. Opening it would create an empty one."""
    remedy = "its writer creates it; if it is elsewhere, correct the catalog's uri"
    if not path.is_absolute():
        remedy += " (an absolute path has four slashes, sqlite:////)"
    return Transient(f"the catalog's SQLite file does not exist: {remedy}. File: {path.absolute()}")


def missing_driver(module: str | None) -> BadConfig:
    """Return the error for a database driver that is not installed."""
    name = module or "of the database"
    package = _PACKAGES.get(name, name) if module else "the driver"
    return BadConfig(
        f"the catalog needs the Python package {name}, which is not installed: pip install '{package}'"
    )
