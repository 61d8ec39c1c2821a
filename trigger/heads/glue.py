"""Heads of AWS Glue: the parameter `metadata_location` of each table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from icemirror.aws_errors import aws_error_code, is_refused, translate_client_errors
from icemirror.errors import BadConfig, IcemirrorError, Invalid, Transient
from icemirror.tables.table_id import TableId
from trigger.heads.head_source import HeadResult, missing_changelog

_MAX_CONCURRENT_REQUESTS = 8  # boto3's client has ten connections
_METADATA_LOCATION = "metadata_location"
_NOT_FOUND = "EntityNotFoundException"
_CONNECT_SECONDS, _READ_SECONDS, _ATTEMPTS = 3, 10, 3
# PyIceberg's properties for each argument of the client, the most specific first.
_ARGUMENTS = {
    "region_name": ("glue.region", "client.region"),
    "endpoint_url": ("glue.endpoint",),
    "aws_access_key_id": ("glue.access-key-id", "client.access-key-id"),
    "aws_secret_access_key": ("glue.secret-access-key", "client.secret-access-key"),
    "aws_session_token": ("glue.session-token", "client.session-token"),
}


class GlueHeads:
    """Reads table by table, a few at the same time: Glue has no call for several tables."""

    def __init__(self, client: Any, catalog_id: str | None) -> None:  # noqa: ANN401 (boto3 creates it at run time)
        self._client = client
        self._catalog = {} if catalog_id is None else {"CatalogId": catalog_id}
        self._pool = ThreadPoolExecutor(_MAX_CONCURRENT_REQUESTS, thread_name_prefix="glue")

    def load_heads(self, tables: Sequence[TableId]) -> dict[TableId, HeadResult]:
        """Return the heads; a missing or unreadable table does not hide the others."""
        heads = dict(zip(tables, self._pool.map(self._load_head, tables), strict=True))
        failures = [head for head in heads.values() if isinstance(head, Transient)]
        if failures and len(failures) == len(heads):
            raise failures[0]
        return heads

    def list_tables(self, namespace: str) -> tuple[str, ...]:
        """Return the Iceberg tables of a database."""
        names: list[str] = []
        try:
            for page in self._client.get_paginator("get_tables").paginate(
                DatabaseName=namespace, **self._catalog
            ):
                names += [table["Name"] for table in page["TableList"] if _is_iceberg(table)]
        except Exception as error:
            if aws_error_code(error) == _NOT_FOUND:
                return ()
            raise _classify_error(error, f"the database {namespace}") from error
        return tuple(sorted(names))

    def close(self) -> None:
        """Close the connections."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def _load_head(self, table: TableId) -> HeadResult:
        try:
            database = ".".join(table.namespace)
            response = self._client.get_table(DatabaseName=database, Name=table.name, **self._catalog)
        except Exception as error:
            if aws_error_code(error) == _NOT_FOUND:
                return missing_changelog(table, "Glue")
            return _classify_error(error, f"the changelog {table}")
        location = response["Table"].get("Parameters", {}).get(_METADATA_LOCATION)
        return location or Invalid(f"the changelog {table} in Glue is not an Iceberg table")


def open_glue(properties: Mapping[str, str]) -> GlueHeads:
    """Open the Glue catalog with these PyIceberg properties."""
    try:
        import boto3
        from botocore.config import Config
    except ModuleNotFoundError:
        raise BadConfig("a Glue catalog needs boto3: pip install boto3") from None
    arguments = {
        argument: next((properties[name] for name in names if name in properties), None)
        for argument, names in _ARGUMENTS.items()
    }
    limits = Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
    )
    with translate_client_errors("the Glue catalog", "glue.region"):
        session = boto3.session.Session(profile_name=properties.get("glue.profile-name"))
        configured = {name: value for name, value in arguments.items() if value}
        client = session.client("glue", config=limits, **configured)
    return GlueHeads(client, properties.get("glue.id"))


def _is_iceberg(table: Mapping[str, Any]) -> bool:
    return str(table.get("Parameters", {}).get("table_type", "")).lower() == "iceberg"


def _classify_error(error: Exception, subject: str) -> IcemirrorError:
    """Return the icemirror error for a failed call."""
    code = aws_error_code(error) or type(error).__name__
    if is_refused(error):
        return Invalid(
            f"Glue denied access to {subject} ({code}): grant glue:GetTable and check the credentials"
        )
    return Transient(f"Glue did not respond to a request for {subject}: {code}")
