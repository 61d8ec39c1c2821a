from __future__ import annotations

import errno
import json
import sqlite3
import traceback

import aiohttp
import azure.core.exceptions
import botocore.exceptions
import pyarrow as pa
import pytest
import requests
import sqlalchemy.exc
from pydantic import BaseModel, ValidationError
from pyiceberg import exceptions as iceberg
from pyiceberg.catalog.rest import ConfigResponse, TableResponse
from pyiceberg.catalog.rest.response import TokenResponse

from icemirror.errors import Conflict, Corrupt, IcemirrorError, Invalid, Transient
from spark_job.pyiceberg_private.open_catalog import hide_responses_in_errors
from spark_job.storage.classify_errors import error_text
from spark_job.storage.translate_errors import catalog_response_errors, translate_error, translate_errors


def _aws_error(code: str) -> Exception:
    """Return an error like those of botocore, which have generated classes."""
    kind = type(code, (botocore.exceptions.ClientError,), {"__module__": "botocore.errorfactory"})
    error: Exception = kind({"Error": {"Code": code, "Message": "slow down"}}, "GetTable")
    return error


def _azure_error(status: int) -> Exception:
    error = azure.core.exceptions.HttpResponseError("no")
    error.status_code = status
    return error


def _sqlite_error(code: int, message: str) -> Exception:
    """Return an error as SQLAlchemy wraps it, with the statement in its text."""
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode = code
    return sqlalchemy.exc.OperationalError("INSERT INTO iceberg_tables", {}, error)


def _postgres_error(state: str) -> Exception:
    error = Exception("permission denied for table iceberg_tables")
    error.sqlstate = state  # type: ignore[attr-defined]  # an attribute of the drivers
    return sqlalchemy.exc.ProgrammingError("INSERT INTO iceberg_tables", {}, error)


TRANSLATIONS: dict[str, tuple[Exception, type[IcemirrorError], str]] = {
    "no such table": (iceberg.NoSuchTableError("a.b"), Invalid, "Check the name"),
    "no such namespace": (iceberg.NoSuchNamespaceError("a"), Invalid, "Check the name"),
    "unauthorised": (iceberg.UnauthorizedError("who"), Invalid, "credentials"),
    "forbidden": (iceberg.ForbiddenError("no"), Invalid, "credentials"),
    "bad request": (iceberg.BadRequestError("Malformed: no such warehouse"), Invalid, "no such warehouse"),
    "server error": (iceberg.ServerError("500"), Transient, "could not answer"),
    "service unavailable": (iceberg.ServiceUnavailableError("503"), Transient, "could not answer"),
    "unknown commit": (iceberg.CommitStateUnknownException("504"), Transient, "could not answer"),
    "refused commit": (iceberg.CommitFailedException("409"), Transient, "could not answer"),
    "missing file": (FileNotFoundError(errno.ENOENT, "gone", "f.avro"), Corrupt, "f.avro"),
    "full disk": (OSError(errno.ENOSPC, "No space left"), Transient, "Free some space"),
    "full quota": (OSError(errno.EDQUOT, "Quota"), Transient, "Free some space"),
    "permission": (PermissionError(errno.EACCES, "denied", "/data"), Invalid, "permission"),
    "read-only": (OSError(errno.EROFS, "read-only"), Invalid, "permission"),
    "damaged": (pa.ArrowInvalid("bad page"), Corrupt, "ArrowInvalid"),
    "not implemented": (pa.ArrowNotImplementedError("a codec"), Corrupt, "ArrowNotImplementedError"),
    "connection reset": (ConnectionResetError("peer"), Transient, "network"),
    "time-out": (TimeoutError("slow"), Transient, "network"),
    "object store": (OSError("AWS Error SLOW_DOWN during GetObject"), Transient, "SLOW_DOWN"),
    "Azure": (azure.core.exceptions.HttpResponseError("busy"), Transient, "busy"),
    "connection lost": (aiohttp.ClientPayloadError("half"), Transient, "half"),
    "AWS": (botocore.exceptions.EndpointConnectionError(endpoint_url="x"), Transient, "x"),
    "AWS error code": (_aws_error("ThrottlingException"), Transient, "Throttling"),
    "AWS forbids": (_aws_error("AccessDeniedException"), Invalid, "no permission to open or write"),
    "object store forbids": (
        OSError("When uploading a part: AWS Error ACCESS_DENIED during PutObject operation: Access Denied"),
        Invalid,
        "no permission",
    ),
    "Azure forbids": (_azure_error(403), Invalid, "no permission to open or write"),
    "read-only database": (
        _sqlite_error(sqlite3.SQLITE_READONLY, "attempt to write a readonly database"),
        Invalid,
        "storage: attempt to write a readonly database. Let the user",
    ),
    "read-only folder of a database": (
        _sqlite_error(sqlite3.SQLITE_READONLY_DIRECTORY, "attempt to write a readonly database"),
        Invalid,
        "also in its folder",
    ),
    "database that cannot be opened": (
        _sqlite_error(sqlite3.SQLITE_CANTOPEN, "unable to open database file"),
        Invalid,
        "no permission to open",
    ),
    "no database": (
        _sqlite_error(sqlite3.SQLITE_NOTADB, "file is not a database"),
        Invalid,
        "not a SQLite file: file is not a database",
    ),
    "full disk of a database": (
        _sqlite_error(sqlite3.SQLITE_FULL, "database or disk is full"),
        Transient,
        "Free some space",
    ),
    "locked database": (
        _sqlite_error(sqlite3.SQLITE_BUSY, "database is locked"),
        Transient,
        "reached: database is locked$",
    ),
    "PostgreSQL forbids": (_postgres_error("42501"), Invalid, "permission denied for table"),
    "PostgreSQL is a replica": (_postgres_error("25006"), Invalid, "no permission to open or write"),
    "PostgreSQL is busy": (_postgres_error("53300"), Transient, "cannot be reached"),
    "bad address": (
        sqlalchemy.exc.ArgumentError("Could not parse"),
        Invalid,
        "with this configuration: Could not",
    ),
    "no region": (
        botocore.exceptions.NoRegionError(),
        Invalid,
        "with this configuration: You must specify a region",
    ),
    "no profile": (botocore.exceptions.ProfileNotFound(profile="x"), Invalid, "with this configuration"),
    "requests": (requests.exceptions.ConnectionError("no route"), Transient, "no route"),
    "database": (sqlalchemy.exc.OperationalError("s", {}, Exception("locked")), Transient, "locked"),
}


def test_database_message_is_one_line_without_statement_and_parameters() -> None:
    refused = Exception("connection refused\n\tIs the server running on that host?\n")
    error = sqlalchemy.exc.OperationalError("UPDATE t SET a = ?", {"a": "secret"}, refused)
    assert error_text(error) == "connection refused Is the server running on that host?"
    wrapped = RuntimeError(str(error))  # as errors of PyIceberg and icemirror may contain it
    assert error_text(wrapped).endswith("running on that host?")
    pending = sqlalchemy.exc.PendingRollbackError("rolled back", code="7s2a")
    assert error_text(pending) == "rolled back"


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_external_error_is_translated_to_its_error_kind(name: str) -> None:
    error, kind, message = TRANSLATIONS[name]
    with pytest.raises(kind, match=message) as caught, translate_errors("shop.orders"):
        raise error
    assert type(caught.value) is kind
    assert str(caught.value).startswith("shop.orders: ")
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [KeyError("x"), ValueError("x"), AssertionError("x"), ZeroDivisionError()])
def test_internal_defect_is_not_translated(error: Exception) -> None:
    assert translate_error(error, "") is None
    with pytest.raises(type(error)), translate_errors("shop.orders"):
        raise error


@pytest.mark.parametrize("error", [Conflict("x"), Invalid("y"), Corrupt("z")])
def test_icemirror_error_is_not_changed(error: IcemirrorError) -> None:
    with pytest.raises(type(error)) as caught, translate_errors("shop.orders"):
        raise error
    assert caught.value is error


def test_interruption_is_not_translated() -> None:
    with pytest.raises(KeyboardInterrupt), translate_errors("shop.orders"):
        raise KeyboardInterrupt


def test_message_without_a_subject_has_no_prefix() -> None:
    with pytest.raises(Transient, match=r"^storage or network failed"), translate_errors():
        raise TimeoutError("slow")


def test_arrow_messages_are_not_repeated_because_they_may_contain_values() -> None:
    with pytest.raises(Corrupt) as caught, translate_errors("shop.orders"):
        pa.array([1_700_000_000_000_000_001], pa.timestamp("ns")).cast(pa.timestamp("us"))
    assert "1700000000000000001" not in str(caught.value)


SECRET = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"  # noqa: S105
RESPONSES = {
    "cut": f'{{"metadata-location": "s3://b/m.json", "config": {{"s3.secret-access-key": "{SECRET}',
    "without metadata": json.dumps({"config": {"s3.secret-access-key": SECRET}}),
    "of another kind": json.dumps({"config": {"s3.secret-access-key": [SECRET]}, "metadata": SECRET}),
}


class _Response(BaseModel):
    """A response of a REST catalog, as PyIceberg declares it."""

    metadata: dict[str, str]
    config: dict[str, str] = {}


@pytest.mark.parametrize("response", RESPONSES)
def test_error_for_an_unreadable_response_omits_its_content(response: str) -> None:
    message = r"lab\.world: the catalog's response cannot be parsed"
    with (
        pytest.raises(Transient, match=message) as caught,
        translate_errors("lab.world"),
        catalog_response_errors("lab.world"),
    ):
        _Response.model_validate_json(RESPONSES[response])
    assert SECRET[-8:] not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("response", RESPONSES)
def test_errors_of_the_rest_client_do_not_repeat_the_response(response: str) -> None:
    hide_responses_in_errors()
    for kind in (TableResponse, ConfigResponse, TokenResponse):
        with pytest.raises(ValidationError) as caught:
            kind.model_validate_json(f"[{RESPONSES[response]}")
        assert SECRET[-8:] not in str(caught.value)
    with pytest.raises(ValidationError) as caught:
        TableResponse.model_validate_json(RESPONSES[response])
    assert SECRET[-8:] not in str(caught.value)


def test_refused_connection_is_described_by_host_and_reason() -> None:
    refused = requests.exceptions.ConnectionError(
        "HTTPConnectionPool(host='127.0.0.1', port=1): Max retries exceeded with url: /v1/config (Caused by "
        "NewConnectionError(\"HTTPConnection(host='127.0.0.1', port=1): Failed to establish a new connection: "
        '[Errno 111] Connection refused"))'
    )
    error = translate_error(refused, "shop.orders: ")
    assert isinstance(error, Transient)
    assert str(error) == (
        "shop.orders: catalog or storage cannot be reached: 127.0.0.1:1: Connection refused. Check its address and "
        "the network."
    )
