from __future__ import annotations

import json
from pathlib import Path

import pytest

from icemirror.cli.main import run
from icemirror.config_file.load import load_settings
from icemirror.telemetry.redaction import forget_secrets

CONFIG = """\
iceberg:
  catalog: {type: sql, uri: "postgresql://me:hunter2@db/c", s3.secret-access-key: "${S3_SECRET}"}
  catalogs: {lake: {type: glue}}
tables:
  - changelog: raw.orders_changelog
    mirror: shop.orders
    primary_keys: [id, "[red]"]
    partition_by: ["bucket[16](id)"]
  - {changelog: raw.p, mirror: shop.p, mirror_catalog: lake, group: heavy}
  - {changelog: raw.q, mirror: shop.q, append_only: true}
discover: [{namespace: raw, match: "*_log", mirror_namespace: shop}]
merge_interval: 90m
batch_size: 1000000
trigger: {max_wait: 1m, sources: {http: {token: "${NOTIFY_TOKEN}"}}}
sentry: {dsn: "${SENTRY_DSN}"}
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("NOTIFY_TOKEN", "SENTRY_DSN", "ICEMIRROR_CONFIG", "CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("S3_SECRET", "hunter3")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "icemirror.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(autouse=True)
def _forget_secrets() -> object:
    yield
    forget_secrets()


def test_check_shows_the_resolved_settings(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "check"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    lines = [" ".join(line.split()) for line in shown.out.splitlines()]
    assert lines[0] == f"{config} is valid"
    assert (
        "raw.orders_changelog → shop.orders id, [red] supabase-etl sequence_number bucket[16](id) default"
        in lines
    )
    assert "raw.p → shop.p (lake) identifier fields supabase-etl sequence_number – heavy" in lines
    assert "raw.q → shop.q none (append only) supabase-etl sequence_number – default" in lines
    assert "raw.*_log → shop.* supabase-etl default" in lines
    assert "(default) type sql" in lines
    assert "lake type glue" in lines
    assert f"state sqlite path={config.parent}/.icemirror/state.db" in lines
    assert "launcher local" in lines
    assert "waiting quiet_period 2s, max_wait 1m" in lines
    assert "polling every 1s by watch, at least every 90m" in lines
    assert "slice limit max_slice_bytes 512MB, batch_size 1,000,000" in lines
    assert "sentry off" in lines


def test_check_hides_secrets(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_TOKEN", "hunter4")
    monkeypatch.setenv("SENTRY_DSN", "https://hunter5@sentry/1")
    assert run(["config", "check"]) == 0
    assert run(["config", "check", "--json"]) == 0
    shown = capsys.readouterr().out
    assert "hunter" not in shown
    assert "postgresql://me:**********@db/c" in shown
    assert "sources      http" in shown
    assert "sentry       on" in shown


def test_check_json_is_one_object_with_every_default(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["config", "check", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    checked = json.loads(line)
    assert checked["file"] == str(config)
    assert checked["tables"][0] == {
        "table": "shop.orders",
        "changelog": "raw.orders_changelog",
        "mirror": "shop.orders",
        "primary_keys": ["id", "[red]"],
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
        "partition_by": ["bucket[16](id)"],
        "group": "default",
    }
    assert checked["tables"][1]["primary_keys"] is None
    assert checked["settings"]["trigger"]["lease"] == "10m"
    config.write_text(json.dumps(checked["settings"]))
    assert load_settings(config, {}).merge_interval == 5400


@pytest.mark.parametrize(
    "arguments",
    [
        ["-c", "other.yaml", "config", "check"],
        ["config", "-c", "other.yaml", "check"],
        ["config", "check", "-c", "other.yaml"],
    ],
)
def test_config_option_is_accepted_at_every_level(
    config: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    config.rename(config.with_name("other.yaml"))
    assert run(arguments) == 0
    assert "other.yaml is valid" in capsys.readouterr().out


def test_invalid_file_exits_with_2_and_prints_all_problems(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(CONFIG.replace("merge_interval: 90m", "merge_intervall: 90m\nbatch_sise: 3"))
    assert run(["config", "check", "--json"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "error: 2 problems in icemirror.yaml",
        "icemirror.yaml:12: merge_intervall: unknown key; did you mean merge_interval?",
        "icemirror.yaml:13: batch_sise: unknown key; did you mean batch_size?",
    ]


def test_missing_file_prints_an_example_configuration(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.unlink()
    assert run(["config", "check"]) == 2
    assert "changelog_table: orders_changelog" in capsys.readouterr().err


def test_schema_prints_the_json_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert set(schema["required"]) == {"iceberg"}
    assert "merge_interval" in schema["properties"]


def test_setting_that_no_command_accepts_is_invalid(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(
        "iceberg: {catalog: {type: glue}}\n"
        "tables:\n"
        "  - {changelog: raw.p, mirror: shop.p, append_only: true, on_bad_row: quarantine}\n"
        "discover: [{namespace: raw, match: '*_log', append_only: true, on_bad_row: quarantine}]\n"
    )
    assert run(["config", "check"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    for location in (":3: tables[0].on_bad_row", ":4: discover[0].on_bad_row"):
        assert f"{location}: an append_only table rejects no rows: remove on_bad_row" in shown.err


def test_setting_that_only_the_trigger_refuses_is_valid_for_merge(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(
        "iceberg: {catalog: {type: glue}}\ntables: [{changelog: raw.o, mirror: shop.o}]\n"
        "trigger: {state: {type: dynamodb, table: t}}\n"
    )
    assert run(["config", "check"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0].endswith("is valid for merge only")
    reason = "trigger.launcher local needs the state on the same machine: set trigger.state.type to sqlite\n"
    assert shown.err == f"watch, serve and sweep refuse: {reason}"
    assert run(["config", "check", "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_commit_without_batch_size_is_bounded_by_bytes(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(CONFIG.replace("batch_size: 1000000\n", ""))
    assert run(["config", "check"]) == 0
    assert "max_slice_bytes 512MB, batch_size none" in capsys.readouterr().out
