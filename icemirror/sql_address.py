"""What the address of a SQL catalog says, and what to say where there is nothing behind it."""

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
    """The file of a SQLite catalog; None for other databases, and for one in memory."""
    dialect, _, rest = uri.partition("://")
    path = rest.partition("?")[0].removeprefix("/")
    return Path(path) if dialect.split("+")[0] == "sqlite" and path not in ("", ":memory:") else None


def missing_file(path: Path) -> Transient:
    """There is no SQLite file: to open it would make an empty one."""
    whole = (
        ""
        if path.is_absolute()
        else f" (from here, {path.absolute()}; a whole path has four slashes, sqlite:////)"
    )
    return Transient(
        f"there is no catalog at {path}{whole}; its writer creates it. If it is elsewhere, correct the catalog's uri."
    )


def missing_driver(module: str | None) -> BadConfig:
    """The database's driver is not installed."""
    name = module or "of the database"
    package = _PACKAGES.get(name, name) if module else "the driver"
    return BadConfig(
        f"the catalog needs the Python package {name}, which is not installed: pip install '{package}'"
    )
