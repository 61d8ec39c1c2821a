"""The file and driver of a SQL catalog from its `uri`, and the errors if they are missing."""

from __future__ import annotations

from pathlib import Path

from icemirror.errors import BadConfig, Transient

_PACKAGE_BY_MODULE = {
    "MySQLdb": "mysqlclient",
    "boto3": ".[glue]",
    "psycopg2": "psycopg2-binary",
    "sqlalchemy": ".[job]",
    "thrift": ".[hive]",
}


def sqlite_path(uri: str) -> Path | None:
    """Return the file of a SQLite catalog; None for other databases and for one in memory."""
    dialect, _, location = uri.partition("://")
    path = location.partition("?")[0].removeprefix("/")
    return Path(path) if dialect.split("+")[0] == "sqlite" and path not in ("", ":memory:") else None


def missing_file_error(path: Path) -> Transient:
    """Return the error for a missing SQLite file. Opening it would create an empty one."""
    remedy = "its writer creates it; if it is elsewhere, correct the catalog's uri"
    if not path.is_absolute():
        remedy += " (an absolute path has four slashes, sqlite:////)"
    return Transient(f"the catalog's SQLite file does not exist: {remedy}. File: {path.absolute()}")


def missing_driver_error(module: str | None) -> BadConfig:
    """Return the error for a database driver that is not installed."""
    name = module or "of the database"
    package = _PACKAGE_BY_MODULE.get(name, name) if module else "the driver"
    location = "in your clone of icemirror, run " if package.startswith(".") else ""
    return BadConfig(
        f"the catalog needs the Python package {name}, which is not installed: {location}pip install '{package}'"
    )
