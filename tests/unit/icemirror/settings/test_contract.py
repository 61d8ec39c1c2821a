"""The example of the contract, literally, and the shipped examples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from icemirror.config_file.find import EXAMPLE
from icemirror.config_file.load import load_settings
from icemirror.config_file.schema import SchemaReader, json_schema
from icemirror.settings import Settings

ROOT = Path(__file__).parents[4]
CONTRACT = Path(__file__).with_name("contract.yaml")
FLAT_KEYS_ENVIRON = {
    "ICEBERG_CATALOG_TOKEN": "t0ken",
    "ICEBERG_S3_ACCESS_KEY_ID": "id",
    "ICEBERG_S3_SECRET_ACCESS_KEY": "s3cret",
}


def test_contract_example_loads_literally() -> None:
    settings = load_settings(CONTRACT, {})
    assert settings.model_dump(mode="json") == {
        "project_ref": "shop",
        "environment": "dev",
        "iceberg": {
            "catalog": {
                "type": "sql",
                "uri": "sqlite:////data/catalog.db",
                "warehouse": "file:///data/warehouse",
            },
            "catalogs": {},
            "catalog_url": None,
            "catalog_token": None,
            "warehouse": None,
            "s3_endpoint": None,
            "s3_access_key_id": None,
            "s3_secret_access_key": None,
            "s3_region": None,
        },
        "tables": [
            {
                "namespace": "shop",
                "changelog_table": "orders_changelog",
                "mirror_table": "orders",
                "changelog": None,
                "mirror": None,
                "primary_keys": ["id"],
                "changelog_catalog": None,
                "mirror_catalog": None,
                "profile": "supabase-etl",
                "operation_column": "cdc_operation",
                "operation_values": {
                    "insert": ["INSERT"],
                    "update": ["UPDATE"],
                    "delete": ["DELETE"],
                    "truncate": [],
                    "ignore": [],
                },
                "sequence_column": ["sequence_number"],
                "append_only": False,
                "connector": None,
                "upsert_only": False,
                "delete_column": None,
                "sequence_format": {},
                "old_key_columns": {},
                "unchanged_value": None,
                "on_missing_value": "stop",
                "keep_columns": [],
                "partition_by": ["day(created_at)"],
                "format_version": 2,
                "schema_policy": "permissive",
                "on_dropped_column": "keep",
                "on_truncate": "rebuild",
                "on_expired_cursor": "stop",
                "on_bad_row": "stop",
                "rejects_table": None,
                "reject_limit": 0.5,
                "delete_mode": "hard",
                "deleted_column": "_is_deleted",
                "columns": {"include": None, "exclude": []},
                "metadata_columns": {"synced_at": None, "source_sequence": None, "created_at": None},
                "name_case": "preserve",
                "min_interval": "0s",
                "tombstone_retention": "7d",
                "compact": True,
                "group": "default",
                "table_properties": {},
            }
        ],
        "discover": [
            {
                "namespace": "raw",
                "match": "*_changelog",
                "mirror_namespace": "shop",
                "primary_keys": [],
                "changelog_catalog": None,
                "mirror_catalog": None,
                "profile": "supabase-etl",
                "operation_column": None,
                "operation_values": None,
                "sequence_column": None,
                "append_only": False,
                "connector": None,
                "upsert_only": False,
                "delete_column": None,
                "sequence_format": {},
                "old_key_columns": {},
                "unchanged_value": None,
                "on_missing_value": "stop",
                "keep_columns": [],
                "partition_by": [],
                "format_version": 2,
                "schema_policy": "permissive",
                "on_dropped_column": "keep",
                "on_truncate": "rebuild",
                "on_expired_cursor": "stop",
                "on_bad_row": "stop",
                "rejects_table": None,
                "reject_limit": 0.5,
                "delete_mode": "hard",
                "deleted_column": "_is_deleted",
                "columns": {"include": None, "exclude": []},
                "metadata_columns": {"synced_at": None, "source_sequence": None, "created_at": None},
                "name_case": "preserve",
                "min_interval": "0s",
                "tombstone_retention": "7d",
                "compact": True,
                "group": "default",
                "table_properties": {},
            }
        ],
        "merge_interval": "1h",
        "batch_size": 1000000,
        "index_location": None,
        "job": {
            "linger": "1m",
            "max_slice_bytes": "512MB",
            "spark_from_events": 20000,
            "spark": {"spark.driver.memory": "1g"},
        },
        "trigger": {
            "state": {"type": "sqlite", "path": "/data/icemirror.db"},
            "launcher": {"type": "local"},
            "sources": {
                "kafka": {
                    "bootstrap_servers": ["…"],
                    "topics": [],
                    "group_id": "icemirror",
                    "security_protocol": "PLAINTEXT",
                    "sasl_mechanism": None,
                    "username": None,
                    "password": None,
                    "region": None,
                    "ca_file": None,
                    "certificate_file": None,
                    "key_file": None,
                },
                "sqs": {"queue_url": "…", "region": "…", "endpoint": None},
                "http": None,
            },
            "poll_interval": "1s",
            "quiet_period": "2s",
            "max_wait": "30s",
            "max_concurrent_jobs": 1,
            "max_failures": 5,
            "lease": "10m",
        },
        "telemetry": {
            "log_format": "json",
            "log_level": "info",
            "prometheus": "127.0.0.1:9464",
            "otlp": None,
        },
        "sentry": None,
    }


def test_contract_example_is_equal_after_a_round_trip(tmp_path: Path) -> None:
    settings = load_settings(CONTRACT, {})
    copy = tmp_path / "copy.yaml"
    copy.write_text(settings.model_dump_json())
    assert load_settings(copy, {}).model_dump() == settings.model_dump()


def test_contract_values_are_the_defaults() -> None:
    """Keys that the example does not choose have the same value if they are left out."""
    settings = load_settings(CONTRACT, {})
    bare = Settings.model_validate(
        {
            "iceberg": {"catalog": {"type": "glue"}},
            "tables": [
                {"namespace": "shop", "changelog_table": "orders_changelog", "mirror_table": "orders"}
            ],
        }
    )
    chosen = {"primary_keys", "operation_column", "operation_values", "sequence_column", "partition_by"}
    assert bare.tables[0].model_dump(exclude=chosen) == settings.tables[0].model_dump(exclude=chosen)
    assert bare.merge_interval == settings.merge_interval
    assert bare.job.model_dump(exclude={"spark"}) == settings.job.model_dump(exclude={"spark"})
    sources = {"sources", "state"}
    assert bare.trigger.model_dump(exclude=sources) == settings.trigger.model_dump(exclude=sources)
    assert bare.telemetry == settings.telemetry


def test_secrets_of_the_contract_example_are_used_when_set() -> None:
    settings = load_settings(CONTRACT, {"NOTIFY_TOKEN": "n", "SENTRY_DSN": "https://k@sentry/1"})
    assert settings.trigger.sources.http is not None
    assert settings.trigger.sources.http.token.get_secret_value() == "n"
    assert settings.sentry is not None


def test_local_example_has_ten_lines_and_is_shown_in_the_error() -> None:
    text = (ROOT / "examples" / "local.yaml").read_text()
    assert text == EXAMPLE
    assert len(text.splitlines()) == 10
    assert text in (ROOT / "docs" / "reference" / "configuration.md").read_text()
    assert (
        load_settings(ROOT / "examples" / "local.yaml", {"HOME": "/home/me"}).tables[0].name == "shop.orders"
    )


def test_flat_keys_example_loads() -> None:
    settings = load_settings(ROOT / "examples" / "rest-flat-keys.yaml", FLAT_KEYS_ENVIRON)
    assert settings.catalog_properties(None)["s3.secret-access-key"] == "s3cret"
    assert settings.table("public.users").sequence_column == ("cdc_sequence_number",)
    assert (settings.batch_size, settings.merge_interval, settings.sentry) == (10000, 3600, None)


@pytest.mark.parametrize("name", ["debezium-postgres", "discover", "glue-dms"])
def test_example_of_a_writer_loads(name: str) -> None:
    environ = {"HOME": "/home/me", "CLIENT_ID": "id", "CLIENT_SECRET": "s3cret"}
    settings = load_settings(ROOT / "examples" / f"{name}.yaml", environ)
    assert settings.tables or settings.discover


def test_full_example_has_every_key() -> None:
    path = ROOT / "examples" / "full.yaml"
    settings = load_settings(path, {"LAKE_TOKEN": "x"})
    assert [table.name for table in settings.tables] == ["shop.orders", "finance.payments"]
    assert settings.model_fields_set == set(Settings.model_fields)
    assert settings.trigger.model_fields_set == set(type(settings.trigger).model_fields)
    written = set(_settings_in(path.read_text()))
    expected = {
        entry.path for entry in SchemaReader(json_schema()).entries() if entry.path[0] != "discover[]"
    }
    assert len(expected) > 100
    assert sorted(expected - written) == []


def _settings_in(text: str) -> Iterator[tuple[str, ...]]:
    """Return the paths of all settings in a file; a commented setting counts as part of its section."""
    yield from _paths(yaml.safe_load(text), ())
    for section, content in _sections(text):
        for commented in re.findall(r"^  # [a-z_0-9]+:.*\n(?:^  #   .*\n)*", content, re.MULTILINE):
            value = yaml.safe_load(re.sub(r"^  # ", "", commented, flags=re.MULTILINE))
            yield from _paths(value, (section,))


def _sections(text: str) -> Iterator[tuple[str, str]]:
    for found in re.finditer(r"^(\w+):(.*\n(?:(?!\w).*\n)*)", text, re.MULTILINE):
        yield found[1], found[2]


def _paths(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield paths as in the JSON schema: `[]` for items, the variant of `state` and `launcher` in brackets."""
    match value:
        case dict():
            if "type" in value and path[-1:] in (("state",), ("launcher",)):
                path = (*path[:-1], f"{path[-1]}({value['type']})")
            for key, inner in value.items():
                yield (*path, key)
                yield from _paths(inner, (*path, key))
        case list():
            for inner in value:
                yield from _paths(inner, (*path[:-1], f"{path[-1]}[]"))
