from __future__ import annotations

import json

import pytest

from icemirror.errors import BadConfig
from icemirror.settings.masking import MASK, is_secret_name, mask_url, url_secrets
from tests.unit.icemirror.settings.samples import CATALOG, TABLES, Load

SECRET = "hunter2-very-secret"  # noqa: S105
SECRETS_EVERYWHERE = f"""\
iceberg:
  catalog:
    type: sql
    uri: postgresql+psycopg2://me:{SECRET}@db:5432/catalog
    s3.access-key-id: {SECRET}
    s3.secret-access-key: {SECRET}
    header.X-Tenant: {SECRET}
    adls.connection-string: {SECRET}
  catalogs:
    lake: {{type: rest, uri: 'https://c?token={SECRET}&a=b', credential: 'id:{SECRET}', token: {SECRET}}}
tables:
  - {{changelog: raw.o, mirror: shop.o, table_properties: {{encryption.key: {SECRET}}}}}
index_location: s3://k:{SECRET}@bucket/index
job: {{spark: {{spark.hadoop.fs.s3a.secret.key: {SECRET}}}}}
trigger:
  state: {{type: dynamodb, table: t, endpoint: 'http://u:{SECRET}@localhost'}}
  launcher:
    type: kubernetes
    namespace: n
    image: i
    service_account: s
    template: {{env: [{{name: DB_PASSWORD, value: {SECRET}}}], token: {SECRET}, url: 'http://a:{SECRET}@b'}}
  sources:
    kafka: {{bootstrap_servers: b, security_protocol: SASL_SSL, sasl_mechanism: PLAIN, username: u, password: {SECRET}}}
    http: {{token: {SECRET}}}
telemetry: {{otlp: 'https://u:{SECRET}@otel'}}
sentry: {{dsn: 'https://{SECRET}@sentry/1'}}
"""


def test_secrets_are_masked_in_repr_and_json(load: Load) -> None:
    settings = load(SECRETS_EVERYWHERE)
    for shown in (repr(settings), str(settings), settings.model_dump_json(), str(settings.model_dump())):
        assert SECRET not in shown
        assert MASK in shown


def test_secrets_in_flat_keys_are_masked(load: Load) -> None:
    settings = load(
        f"iceberg: {{catalog_url: 'http://c', catalog_token: {SECRET}, s3_access_key_id: {SECRET}, "
        f"s3_secret_access_key: {SECRET}}}\n{TABLES}"
    )
    assert SECRET not in repr(settings) + settings.model_dump_json()
    assert settings.catalog_properties(None)["token"] == SECRET


def test_all_secrets_are_listed_for_masking(load: Load) -> None:
    assert load(SECRETS_EVERYWHERE).secret_values() == {SECRET, f"id:{SECRET}", f"https://{SECRET}@sentry/1"}
    assert load(CATALOG + TABLES).secret_values() == set()


@pytest.mark.parametrize(
    "line",
    [
        "merge_interval: ${S}",
        "batch_size: ${S}",
        "job: {max_slice_bytes: 'a${S}'}",
        "telemetry: {log_level: '${S}', prometheus: '${S}'}",
        "trigger: {state: {type: '${S}'}}",
        "trigger: {sources: {kafka: {bootstrap_servers: a, security_protocol: '${S}'}}}",
        "discover: [{namespace: '${S}..', match: '${S}', group: '${S}!'}]",
        "sentry: {dsn: '${S}', '${S}': 1}",
    ],
)
def test_errors_do_not_show_values_of_variables(load: Load, line: str) -> None:
    with pytest.raises(BadConfig) as refused:
        load(f"{CATALOG}{TABLES}{line}\n", {"S": SECRET})
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None


def test_errors_do_not_show_values_of_secret_settings(load: Load) -> None:
    with pytest.raises(BadConfig) as refused:
        load(
            f"{CATALOG}{TABLES}sentry: {{dsn: {{a: {SECRET}}}}}\n"
            f"trigger: {{sources: {{http: {{token: [{SECRET}]}}}}}}\n"
        )
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "name",
    [
        "token",
        "s3.session-token",
        "client.secret-access-key",
        "s3.access-key-id",
        "password",
        "credential",
        "gcp.bigquery.credentials-info",
        "adls.account-key",
        "header.Authorization",
        "PGPASSWORD",
    ],
)
def test_secret_names_are_detected(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["uri", "warehouse", "type", "s3.endpoint", "s3.region", "glue.id", "rest.sigv4-enabled"]
)
def test_other_names_are_not_secret(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("url", "masked", "secrets"),
    [
        ("postgresql://u:p@h/db", f"postgresql://u:{MASK}@h/db", ["p"]),
        ("postgresql://u:p@w:x@h/db", f"postgresql://u:{MASK}@h/db", ["p@w:x"]),
        ("postgresql://u@h:5432/db", "postgresql://u@h:5432/db", []),
        ("https://h/x?sig=abc&y=1", f"https://h/x?sig={MASK}&y=1", ["abc"]),
        ("sqlite:////data/a:b@c.db", "sqlite:////data/a:b@c.db", []),
        ("plain", "plain", []),
    ],
)
def test_passwords_in_urls_are_masked(url: str, masked: str, secrets: list[str]) -> None:
    assert mask_url(url) == masked
    assert url_secrets(url) == secrets


def test_json_dump_is_a_valid_configuration(load: Load) -> None:
    settings = load(f"{CATALOG}{TABLES}merge_interval: 90s\njob: {{max_slice_bytes: 64KB, linger: 500ms}}\n")
    assert load(settings.model_dump_json()) == settings
    assert json.loads(settings.model_dump_json())["job"]["linger"] == "500ms"
