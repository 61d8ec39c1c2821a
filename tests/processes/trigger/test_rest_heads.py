"""Heads from a REST catalog."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from icemirror.errors import BadConfig, Invalid, Transient
from icemirror.tables.table_id import TableId
from tests.processes.trigger.rest_catalog import RestCatalog, serve
from trigger.heads.rest import RestHeads

ORDERS, MISSING = TableId.parse("raw.shop.orders"), TableId.parse("raw.shop.nothing")
LEVELS = "raw\x1fshop"


@pytest.fixture
def catalog() -> Iterator[RestCatalog]:
    with serve() as catalog:
        catalog.tables[LEVELS, "orders"] = "s3://b/m1.json"
        yield catalog


@pytest.fixture
def heads(catalog: RestCatalog) -> Iterator[RestHeads]:
    heads = RestHeads({"uri": catalog.url + "/", "warehouse": "w h"})
    yield heads
    heads.close()


def test_head_is_the_metadata_location_and_snapshots_are_omitted(
    catalog: RestCatalog, heads: RestHeads
) -> None:
    assert heads.load_heads([ORDERS]) == {ORDERS: "s3://b/m1.json"}
    assert catalog.requests == [
        "/v1/config?warehouse=w+h",
        "/v1/namespaces/raw%1Fshop/tables/orders?snapshots=refs",
    ]
    catalog.tables[LEVELS, "orders"] = "s3://b/m2.json"
    assert heads.load_heads([ORDERS]) == {ORDERS: "s3://b/m2.json"}


def test_missing_table_does_not_hide_others(heads: RestHeads) -> None:
    found = heads.load_heads([MISSING, ORDERS])
    assert isinstance(found[MISSING], Invalid)
    assert found[ORDERS] == "s3://b/m1.json"


def test_prefix_of_the_catalog_is_used(catalog: RestCatalog, heads: RestHeads) -> None:
    catalog.prefix = "ws/1"
    assert heads.load_heads([ORDERS]) == {ORDERS: "s3://b/m1.json"}


def test_unchanged_head_is_not_sent_again(catalog: RestCatalog, heads: RestHeads) -> None:
    catalog.etags = True
    assert heads.load_heads([ORDERS]) == heads.load_heads([ORDERS]) == {ORDERS: "s3://b/m1.json"}
    assert catalog.headers[-1]["If-None-Match"] == '"s3://b/m1.json"'
    catalog.tables[LEVELS, "orders"] = "s3://b/m2.json"
    assert heads.load_heads([ORDERS]) == {ORDERS: "s3://b/m2.json"}


def test_tables_are_listed_page_by_page(catalog: RestCatalog, heads: RestHeads) -> None:
    catalog.page_size = 2
    for number in range(5):
        catalog.tables[LEVELS, f"t{number}"] = "x"
    assert heads.list_tables("raw.shop") == ("orders", "t0", "t1", "t2", "t3", "t4")
    assert heads.list_tables("nowhere") == ()


def test_circular_pages_end(catalog: RestCatalog, heads: RestHeads) -> None:
    catalog.page_size, catalog.loops_at = 2, 4
    for number in range(9):
        catalog.tables[LEVELS, f"t{number}"] = "x"
    assert set(heads.list_tables("raw.shop")) == {"orders", "t0", "t1", "t2", "t3", "t4"}


def test_configured_token_and_headers_are_sent(catalog: RestCatalog) -> None:
    catalog.needs_token, catalog.tokens = True, ["secret"]
    heads = RestHeads({"uri": catalog.url, "token": "secret", "header.X-Tenant": "a"})
    assert heads.load_heads([ORDERS]) == {ORDERS: "s3://b/m1.json"}
    assert catalog.headers[-1]["X-Tenant"] == "a"
    heads.close()


def test_token_is_fetched_with_client_credentials_and_renewed_when_refused(catalog: RestCatalog) -> None:
    catalog.needs_token = True
    heads = RestHeads({"uri": catalog.url, "credential": "me:s3cr:et", "scope": "all"})
    assert heads.load_heads([ORDERS]) == {ORDERS: "s3://b/m1.json"}
    catalog.tokens.append("a newer one, so that ours has expired")
    assert heads.load_heads([ORDERS]) == {ORDERS: "s3://b/m1.json"}
    assert len(catalog.forms) == 2
    assert catalog.forms[0] == {
        "grant_type": ["client_credentials"],
        "client_id": ["me:s3cr"],
        "client_secret": ["et"],
        "scope": ["all"],
    }
    heads.close()


def test_refused_token_is_invalid_and_not_shown(catalog: RestCatalog) -> None:
    catalog.needs_token = True
    heads = RestHeads({"uri": catalog.url, "token": "wrong-secret"})
    with pytest.raises(Invalid, match="check token or credential") as refused:
        heads.load_heads([ORDERS])
    assert "wrong-secret" not in str(refused.value)
    heads.close()


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_server_error_of_the_catalog_is_transient(
    catalog: RestCatalog, heads: RestHeads, status: int
) -> None:
    catalog.fails_with = status
    with pytest.raises(Transient, match=str(status)):
        heads.load_heads([ORDERS])
    catalog.fails_with = None
    assert heads.load_heads([ORDERS]) == {ORDERS: "s3://b/m1.json"}


def test_unreachable_catalog_is_transient() -> None:
    heads = RestHeads({"uri": "http://127.0.0.1:9"})
    with pytest.raises(Transient, match="did not respond"):
        heads.load_heads([ORDERS])
    heads.close()


def test_only_http_addresses_are_called() -> None:
    heads = RestHeads({"uri": "file:///etc"})
    with pytest.raises(BadConfig, match="http"):
        heads.load_heads([ORDERS])
    heads.close()


def test_answer_without_a_location_is_invalid(catalog: RestCatalog, heads: RestHeads) -> None:
    catalog.tables[LEVELS, "orders"] = ""
    assert isinstance(heads.load_heads([ORDERS])[ORDERS], Invalid)
