"""Recognizes errors of catalogs and storage that a user must fix: no permission, full disk, damaged database."""

from __future__ import annotations

import errno
import re
import sqlite3
from collections.abc import Iterator

_PERMISSION_ERRNOS = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN_STATUS = (401, 403)
# AWS reports a code; Arrow repeats that code in the text of an OSError.
_FORBIDDEN_AWS_CODES = frozenset(
    {
        "accessdenied",
        "accessdeniedexception",
        "invalidaccesskeyid",
        "invalidclienttokenid",
        "signaturedoesnotmatch",
        "unrecognizedclientexception",
    }
)
_ARROW_AWS_CODE = re.compile(r"AWS Error ([A-Z_]+)")
# Primary result codes of SQLite, and SQLSTATE of other databases.
_SQLITE_READ_ONLY = (
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_CANTOPEN,
)
_SQLITE_DAMAGED = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
_READ_ONLY_SQLSTATES = ("42501", "25006")  # insufficient privilege, read-only transaction
_SQLITE_PRIMARY_MASK = 0xFF
_SQLALCHEMY_DETAILS = re.compile(r"\n\[SQL: .*|\(Background on this error at: .*", re.DOTALL)


def is_forbidden(error: BaseException) -> bool:
    """Return whether a permission is missing, so that the operation did not happen."""
    return any(_means_forbidden(raised) for raised in _with_driver_error(error))


def is_disk_full(error: BaseException) -> bool:
    """Return whether no space is left. The operation may succeed later."""
    if isinstance(error, OSError):
        return error.errno in _FULL_ERRNOS
    return any(_sqlite_code(raised) == sqlite3.SQLITE_FULL for raised in _with_driver_error(error))


def is_damaged_database(error: BaseException) -> bool:
    """Return whether the file of a SQLite catalog is damaged, or is not a SQLite file."""
    return any(_sqlite_code(raised) in _SQLITE_DAMAGED for raised in _with_driver_error(error))


def error_text(error: BaseException) -> str:
    """Return the message in one line, without the statement and parameters that SQLAlchemy adds."""
    driver_error = getattr(error, "orig", None)
    message = str(driver_error if isinstance(driver_error, BaseException) else error)
    return " ".join(_SQLALCHEMY_DETAILS.sub("", message).split())


def _with_driver_error(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, and the database driver's error if SQLAlchemy wraps one."""
    yield error
    driver_error = getattr(error, "orig", None)
    if isinstance(driver_error, BaseException):
        yield driver_error


def _means_forbidden(error: BaseException) -> bool:
    if isinstance(error, OSError):
        aws_code = _ARROW_AWS_CODE.search(str(error))
        return error.errno in _PERMISSION_ERRNOS or (
            aws_code is not None and _is_forbidden_code(aws_code[1].replace("_", ""))
        )
    if isinstance(error, sqlite3.Error):
        return _sqlite_code(error) in _SQLITE_READ_ONLY
    if _sqlstate(error) in _READ_ONLY_SQLSTATES:
        return True
    return _is_forbidden_code(_aws_code(error)) or _http_status(error) in _FORBIDDEN_STATUS


def _sqlite_code(error: BaseException) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return code & _SQLITE_PRIMARY_MASK if isinstance(code, int) else None


def _sqlstate(error: BaseException) -> object:
    """Return the SQLSTATE of a PostgreSQL driver's error: drivers have one of these attributes."""
    return getattr(error, "sqlstate", getattr(error, "pgcode", None))


def _is_forbidden_code(code: str) -> bool:
    return code.lower() in _FORBIDDEN_AWS_CODES


def _aws_code(error: BaseException) -> str:
    """Return the error code of botocore's ClientError; empty for other errors."""
    response = getattr(error, "response", None)
    details = response.get("Error") if isinstance(response, dict) else None
    return str(details.get("Code", "")) if isinstance(details, dict) else ""


def _http_status(error: BaseException) -> object:
    """Return the HTTP status of an error of an Azure or Google client: they have one of these attributes."""
    return getattr(error, "status_code", getattr(error, "code", None))
