"""Heads from AWS Glue, with a fake of boto3's client."""

from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from icemirror.errors import BadConfig, Invalid, Transient
from icemirror.tables.table_id import TableId
from trigger.heads.glue import GlueHeads, open_glue

ORDERS, MISSING = TableId.parse("raw.orders"), TableId.parse("raw.nothing")


class ConnectionClosed(Exception):
    """botocore's error for a closed connection: it has no response."""

    response = None


class ClientError(Exception):
    """botocore's error with a code."""

    def __init__(self, code: str) -> None:
        super().__init__(f"An error occurred ({code})")
        self.response = {"Error": {"Code": code}}


class GlueClient:
    """The calls of the trigger."""

    def __init__(self, tables: dict[str, dict[str, str]]) -> None:
        self.tables = tables
        self.fails_with: Exception | None = None
        self.requests: list[dict[str, str]] = []

    def get_table(self, **arguments: str) -> dict[str, Any]:
        self.requests.append(arguments)
        if self.fails_with:
            raise self.fails_with
        if arguments["Name"] not in self.tables:
            raise ClientError("EntityNotFoundException")
        return {"Table": {"Name": arguments["Name"], "Parameters": self.tables[arguments["Name"]]}}

    def get_paginator(self, call: str) -> Any:
        assert call == "get_tables"
        return SimpleNamespace(paginate=self._pages)

    def _pages(self, **arguments: str) -> list[dict[str, Any]]:
        if arguments["DatabaseName"] != "raw":
            raise ClientError("EntityNotFoundException")
        return [{"TableList": [{"Name": name, "Parameters": self.tables[name]}]} for name in self.tables]

    def close(self) -> None:
        self.closed = True


ICEBERG = {"table_type": "ICEBERG", "metadata_location": "s3://b/m1.json"}


@pytest.fixture
def client() -> GlueClient:
    return GlueClient({"orders": ICEBERG, "csv": {"classification": "csv"}})


def test_head_is_a_parameter_of_the_table(client: GlueClient) -> None:
    found = GlueHeads(client, "123").load_heads([ORDERS, MISSING])
    assert found[ORDERS] == "s3://b/m1.json"
    assert isinstance(found[MISSING], Invalid)
    assert client.requests[0] == {"DatabaseName": "raw", "Name": "orders", "CatalogId": "123"}


def test_table_that_is_not_iceberg_is_invalid(client: GlueClient) -> None:
    table = TableId.parse("raw.csv")
    assert "not an Iceberg table" in str(GlueHeads(client, None).load_heads([table])[table])


def test_only_iceberg_tables_are_listed(client: GlueClient) -> None:
    assert GlueHeads(client, None).list_tables("raw") == ("orders",)
    assert GlueHeads(client, None).list_tables("nowhere") == ()


def test_refusal_is_invalid_and_a_missing_response_is_transient(client: GlueClient) -> None:
    heads = GlueHeads(client, None)
    client.fails_with = ClientError("AccessDeniedException")
    assert "glue:GetTable" in str(heads.load_heads([ORDERS])[ORDERS])
    for error in (ClientError("ThrottlingException"), OSError("no route"), ConnectionClosed()):
        client.fails_with = error
        with pytest.raises(Transient):
            heads.load_heads([ORDERS])


def test_client_is_created_from_pyiceberg_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[tuple[str, dict[str, str]]] = []

    def session(profile_name: str | None) -> Any:
        def create(service: str, **arguments: str) -> GlueClient:
            del arguments["config"]
            created.append((str(profile_name), {"service": service, **arguments}))
            return GlueClient({"orders": ICEBERG})

        return SimpleNamespace(client=create)

    boto3 = ModuleType("boto3")
    boto3.session = SimpleNamespace(Session=session)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "boto3", boto3)
    properties = {"client.region": "eu-1", "glue.endpoint": "http://e", "glue.profile-name": "p"}
    heads = open_glue(properties)
    assert heads.load_heads([ORDERS]) == {ORDERS: "s3://b/m1.json"}
    assert created == [("p", {"service": "glue", "region_name": "eu-1", "endpoint_url": "http://e"})]
    heads.close()


@pytest.fixture
def no_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove AWS settings from the environment."""
    for name in [name for name in os.environ if name.startswith("AWS")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")


@pytest.mark.usefixtures("no_aws")
@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, r"no AWS region.*glue\.region"),
        ({"glue.region": "eu-central-1", "glue.profile-name": "nobody"}, "profile .*nobody"),
        ({"glue.region": "eu-central-1", "glue.endpoint": "no address"}, "no address"),
    ],
)
def test_invalid_client_properties_are_a_configuration_error(
    properties: dict[str, str], message: str
) -> None:
    with pytest.raises(BadConfig, match=message):
        open_glue(properties)


@pytest.mark.usefixtures("no_aws")
def test_missing_credentials_are_invalid() -> None:
    heads = open_glue({"glue.region": "eu-central-1"})
    assert type(heads.load_heads([ORDERS])[ORDERS]) is Invalid
    with pytest.raises(Invalid, match="check the credentials"):
        heads.list_tables("raw")
    heads.close()


@pytest.mark.usefixtures("no_aws")
def test_timeouts_and_retries_are_short() -> None:
    heads = open_glue({"glue.region": "eu-central-1"})
    config = heads._client.meta.config
    heads.close()
    assert config.connect_timeout + config.read_timeout <= 20
    assert config.retries["total_max_attempts"] <= 3


def test_missing_boto3_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(BadConfig, match="pip install boto3"):
        open_glue({})


def test_unreadable_table_does_not_hide_others(client: GlueClient) -> None:
    original = client.get_table

    def get_table(**arguments: str) -> dict[str, Any]:
        if arguments["Name"] == "far":
            raise ClientError("FederationSourceException")
        return original(**arguments)

    client.get_table = get_table  # type: ignore[method-assign]
    unreadable = TableId.parse("raw.far")
    found = GlueHeads(client, None).load_heads([unreadable, ORDERS])
    assert isinstance(found[unreadable], Transient)
    assert found[ORDERS] == "s3://b/m1.json"
    with pytest.raises(Transient):
        GlueHeads(client, None).load_heads([unreadable])
