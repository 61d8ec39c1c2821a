"""The configuration of a job: complete, equal to the trigger's, and without secrets."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from icemirror.config_file.job_config import config_for_job
from icemirror.config_file.load import load_settings, parse_settings
from icemirror.config_file.packing import pack_arguments, unpack_arguments
from icemirror.errors import BadConfig, Invalid
from icemirror.settings import Settings

FILE = """
iceberg:
  catalog:
    type: rest
    uri: https://${HOST}/iceberg
    token: ${CATALOG_TOKEN}
    header.X-Iceberg-Access-Delegation: vended-credentials
    token-refresh-enabled: true
  catalogs:
    other: {type: sql, uri: "postgresql://me:${PG_PASSWORD}@${HOST}/lake"}
tables:
  - {namespace: shop, changelog_table: orders_changelog, mirror_table: orders, primary_keys: [id],
     table_properties: {comment: "a $${plain} one"}}
job: {spark: {spark.executor.memory: 2g}}
trigger:
  state: {type: dynamodb, table: "state-${HOST}"}
  launcher:
    type: emr-serverless
    application_id: ${APPLICATION}
    execution_role_arn: arn:aws:iam::123456789012:role/job
    entry_point: s3://code/icemirror_job.py
  sources: {http: {token: "${NOTIFY_TOKEN}"}}
"""
TRIGGER_ENVIRON = {
    "HOST": "lake.example",
    "CATALOG_TOKEN": "t0ken",
    "PG_PASSWORD": "p4ss",
    "APPLICATION": "00f1",
    "NOTIFY_TOKEN": "n0tify",
}
JOB_ENVIRON = {"HOST": "lake.example", "CATALOG_TOKEN": "t0ken", "PG_PASSWORD": "p4ss"}


def load(folder: Path, text: str = FILE, environ: dict[str, str] = TRIGGER_ENVIRON) -> Settings:
    path = folder / "icemirror.yaml"
    path.write_text(text)
    return load_settings(path, environ)


def test_job_reads_the_same_settings_in_another_environment(tmp_path: Path) -> None:
    settings = load(tmp_path)
    sent = config_for_job(settings, TRIGGER_ENVIRON)
    received = parse_settings(unpack_arguments(pack_arguments(sent.text)), settings.source_path, JOB_ENVIRON)
    trigger_only = {"launcher", "sources"}
    assert received.model_dump(exclude={"trigger"}) == settings.model_dump(exclude={"trigger"})
    assert received.trigger.model_dump(exclude=trigger_only) == settings.trigger.model_dump(
        exclude=trigger_only
    )
    assert received.catalog_properties(None) == settings.catalog_properties(None)
    assert received.catalog_properties("other") == settings.catalog_properties("other")
    assert received.tables[0].table_properties == {"comment": "a ${plain} one"}


def test_secrets_are_not_sent_and_are_read_from_the_job_environment(tmp_path: Path) -> None:
    sent = config_for_job(load(tmp_path), TRIGGER_ENVIRON)
    for secret in ("t0ken", "p4ss", "n0tify"):
        assert secret not in sent.text
    assert "https://lake.example/iceberg" in sent.text
    assert sent.variables == {"CATALOG_TOKEN", "PG_PASSWORD", "HOST"}


@pytest.mark.parametrize(
    ("secret", "written"),
    [
        ("token: ${CATALOG_TOKEN}", "token: t0ken"),
        ("me:${PG_PASSWORD}@", "me:p4ss@"),
        ("job: {spark: {spark.executor.memory: 2g}}", "job: {spark: {spark.hadoop.fs.s3a.secret.key: abc}}"),
        ("job:", "sentry: {dsn: 'https://k@sentry.example/1'}\njob:"),
    ],
)
def test_secret_in_the_file_is_refused_with_its_line(tmp_path: Path, secret: str, written: str) -> None:
    assert secret in FILE
    settings = load(tmp_path, FILE.replace(secret, written))
    with pytest.raises(BadConfig, match=r"yaml:\d+: .*a secret in the file.*trigger\.launcher\.secrets"):
        config_for_job(settings, TRIGGER_ENVIRON)


def test_disabled_section_stays_disabled(tmp_path: Path) -> None:
    settings = load(tmp_path, FILE + "sentry: {dsn: '${DSN}'}\n")
    received = parse_settings(
        config_for_job(settings, TRIGGER_ENVIRON).text,
        settings.source_path,
        {**JOB_ENVIRON, "DSN": "https://k@s/1"},
    )
    assert settings.sentry is received.sentry is None


def test_large_configuration_is_split_into_arguments_and_joined() -> None:
    text = "".join(f"{number * number:x}" for number in range(60_000))
    arguments = pack_arguments(text)
    assert len(arguments) > 1
    assert max(map(len, arguments)) < 128 << 10
    assert (unpack_arguments(arguments), pack_arguments(text)) == (text, arguments)


def _with_damaged_content() -> str:
    packed = bytearray(base64.b64decode(pack_arguments("a text")[0]))
    packed[10] = 0xFF  # the first byte after the gzip header
    return base64.b64encode(packed).decode()


@pytest.mark.parametrize(
    "arguments",
    [["garbage!"], ["AAAA"], [pack_arguments("a text")[0][:-8]], [_with_damaged_content()]],
    ids=["no base64", "no gzip", "cut", "damaged content"],
)
def test_damaged_arguments_are_reported(arguments: list[str]) -> None:
    with pytest.raises(Invalid, match="cannot read the configuration"):
        unpack_arguments(arguments)
