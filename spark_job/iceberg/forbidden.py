"""What catalogs and storage raise where somebody must give a permission, or correct an address."""

from __future__ import annotations

import errno
import re
import sqlite3
from collections.abc import Iterator

_MAY_NOT = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_REFUSED_STATUS = (401, 403)
# Of AWS, which says it in a code, or through Arrow in the text of an OSError.
_REFUSED_BY_AWS = frozenset(
    {
        "accessdenied",
        "accessdeniedexception",
        "invalidaccesskeyid",
        "invalidclienttokenid",
        "signaturedoesnotmatch",
        "unrecognizedclientexception",
    }
)
_AWS_TEXT = re.compile(r"AWS Error ([A-Z_]+)")
# By the primary code of SQLite, and by the SQLSTATE of other databases.
_READ_ONLY = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_CANTOPEN)
_NO_DATABASE = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
_READ_ONLY_STATES = ("42501", "25006")  # insufficient privilege, read-only transaction
_PRIMARY = 0xFF
_ADDED = re.compile(r"\n\[SQL: .*|\(Background on this error at: .*", re.DOTALL)


def is_forbidden(error: BaseException) -> bool:
    """Whether the permission is missing to do it, so that it was not done."""
    return any(_forbids(one) for one in _told(error))


def is_full(error: BaseException) -> bool:
    """Whether there is no space left, which passes."""
    if isinstance(error, OSError):
        return error.errno in _FULL
    return any(_sqlite_code(one) == sqlite3.SQLITE_FULL for one in _told(error))


def is_no_database(error: BaseException) -> bool:
    """Whether the file of a SQLite catalog is damaged, or something else."""
    return any(_sqlite_code(one) in _NO_DATABASE for one in _told(error))


def own_words(error: BaseException) -> str:
    """What went wrong, in one line, without the statement and its parameters that SQLAlchemy adds."""
    driver = getattr(error, "orig", None)
    words = str(driver if isinstance(driver, BaseException) else error)
    return " ".join(_ADDED.sub("", words).split())


def _told(error: BaseException) -> Iterator[BaseException]:
    """The error, and the one of the database's driver that SQLAlchemy wraps."""
    yield error
    driver = getattr(error, "orig", None)
    if isinstance(driver, BaseException):
        yield driver


def _forbids(error: BaseException) -> bool:
    if isinstance(error, OSError):
        said = _AWS_TEXT.search(str(error))
        return error.errno in _MAY_NOT or (said is not None and _is_refused(said[1].replace("_", "")))
    if isinstance(error, sqlite3.Error):
        return _sqlite_code(error) in _READ_ONLY
    if _state(error) in _READ_ONLY_STATES:
        return True
    return _is_refused(_aws_code(error)) or _status(error) in _REFUSED_STATUS


def _sqlite_code(error: BaseException) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return code & _PRIMARY if isinstance(code, int) else None


def _state(error: BaseException) -> object:
    """Of the drivers of PostgreSQL."""
    return getattr(error, "sqlstate", getattr(error, "pgcode", None))


def _is_refused(code: str) -> bool:
    return code.lower() in _REFUSED_BY_AWS


def _aws_code(error: BaseException) -> str:
    """Of botocore's ClientError."""
    response = getattr(error, "response", None)
    told = response.get("Error") if isinstance(response, dict) else None
    return str(told.get("Code", "")) if isinstance(told, dict) else ""


def _status(error: BaseException) -> object:
    """Of the clients of Azure and Google."""
    return getattr(error, "status_code", getattr(error, "code", None))
