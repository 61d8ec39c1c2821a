from __future__ import annotations

import pytest

from icemirror.settings.address import Address
from icemirror.settings.trigger import (
    DynamoDbState,
    EmrServerlessLauncherSettings,
    KubernetesLauncherSettings,
    KubernetesState,
    LocalLauncherSettings,
    SqliteState,
)
from tests.unit.icemirror.settings.samples import CATALOG, TABLES, Load, Refuse

EMR = (
    "{type: emr-serverless, application_id: a, execution_role_arn: 'arn:aws:iam::1:role/r', "
    "entry_point: 's3://b/main.py'"
)
KUBERNETES = "{type: kubernetes, namespace: jobs, image: i, service_account: spark"
SASL = "bootstrap_servers: a, security_protocol: SASL_SSL"


def test_defaults_are_sqlite_and_local_launcher(load: Load) -> None:
    trigger = load(CATALOG + TABLES).trigger
    assert isinstance(trigger.state, SqliteState)
    assert isinstance(trigger.launcher, LocalLauncherSettings)
    assert (trigger.poll_interval, trigger.quiet_period, trigger.max_wait, trigger.lease) == (1, 2, 30, 600)
    assert (trigger.max_concurrent_jobs, trigger.max_failures) == (1, 5)
    assert (trigger.sources.kafka, trigger.sources.sqs, trigger.sources.http) == (None, None, None)


def test_type_selects_state_and_launcher(load: Load) -> None:
    trigger = load(
        f"{CATALOG}{TABLES}trigger: {{state: {{type: dynamodb, table: t}}, launcher: {EMR}}}}}\n"
    ).trigger
    assert trigger.state == DynamoDbState(type="dynamodb", table="t")
    assert isinstance(trigger.launcher, EmrServerlessLauncherSettings)
    assert trigger.launcher.timeout == 6 * 3600
    trigger = load(
        f"{CATALOG}{TABLES}trigger: {{state: {{type: kubernetes, namespace: n}}, launcher: {KUBERNETES}, "
        "template: {spec: {executor: {instances: 2, labels: {version: '2'}}}}}}\n"
    ).trigger
    assert trigger.state == KubernetesState(type="kubernetes", namespace="n")
    assert isinstance(trigger.launcher, KubernetesLauncherSettings)
    assert trigger.launcher.api_version == "sparkoperator.k8s.io/v1beta2"
    assert trigger.launcher.template == {"spec": {"executor": {"instances": 2, "labels": {"version": "2"}}}}


def test_sources_are_read(load: Load) -> None:
    sources = load(
        f"{CATALOG}{TABLES}trigger: {{sources: {{kafka: {{bootstrap_servers: 'a:1, b:2', topics: [t], "
        "security_protocol: SASL_SSL, sasl_mechanism: PLAIN, username: u, password: p}, "
        "sqs: {queue_url: 'https://q'}, http: {token: x}}}\n"
    ).trigger.sources
    assert sources.kafka is not None
    assert sources.kafka.bootstrap_servers == ("a:1", "b:2")
    assert sources.kafka.group_id == "icemirror"
    assert sources.sqs is not None
    assert sources.http is not None


def test_quiet_period_can_equal_max_wait(load: Load) -> None:
    assert (
        load(f"{CATALOG}{TABLES}trigger: {{quiet_period: 30s, max_wait: 30s}}\n").trigger.quiet_period == 30
    )


def test_telemetry_binds_prometheus_on_this_machine_by_default(load: Load) -> None:
    telemetry = load(CATALOG + TABLES).telemetry
    assert telemetry.prometheus == Address("127.0.0.1", 9464)
    assert (telemetry.log_format, telemetry.log_level, telemetry.otlp) == ("json", "info", None)


@pytest.mark.parametrize(
    ("trigger", "problem"),
    [
        ("{state: {path: x}}", "trigger.state.type: missing"),
        ("{state: {type: sqlite, path: ~/x}}", "trigger.state.path: `~` is not expanded: write ${HOME}"),
        ("{state: {type: sqlite, pth: x}}", "trigger.state.pth: unknown key; did you mean path?"),
        ("{state: {type: dynamodb}}", "trigger.state.table: missing: expected the table's name"),
        ("{quiet_period: 31s}", "trigger.quiet_period: is longer than max_wait"),
        ("{max_failures: 0}", "trigger.max_failures: must be at least 1; found '0'"),
        ("{max_concurrent_jobs: 0}", "trigger.max_concurrent_jobs: must be at least 1; found '0'"),
        ("{poll_interval: 0s}", "trigger.poll_interval: must be more than 0"),
        ("{lease: 0s}", "trigger.lease: must be more than 0"),
        (
            f"{{launcher: {EMR}}}}}",
            "trigger.state.type: jobs of emr-serverless",
        ),
        (f"{{launcher: {KUBERNETES}}}}}", "trigger.state.type: jobs of"),
        (
            f"{{state: {{type: dynamodb, table: t}}, launcher: {EMR}, archives: [env.tar.gz]}}}}",
            "trigger.launcher.archives[0]: expected an S3 location",
        ),
        (
            f"{{state: {{type: kubernetes, namespace: n}}, launcher: {KUBERNETES}, api_version: v1}}}}",
            "trigger.launcher.api_version: expected group/version",
        ),
        (
            f"{{state: {{type: kubernetes, namespace: n}}, launcher: {KUBERNETES}, secrets: {{A: b}}}}}}",
            "trigger.launcher.secrets.A: expected name/key of a Secret",
        ),
        (
            f"{{state: {{type: dynamodb, table: t}}, launcher: {EMR}, secrets: {{a-b: c}}}}}}",
            "trigger.launcher.secrets: 'a-b' is not the name of an environment variable",
        ),
        (
            "{sources: {kafka: {bootstrap_servers: a, security_protocol: SASL_SSL, username: u, password: p}}}",
            "trigger.sources.kafka.sasl_mechanism: missing: SASL_SSL needs it",
        ),
        (
            "{sources: {kafka: {bootstrap_servers: a, password: p}}}",
            "trigger.sources.kafka.password: not used by PLAIN",
        ),
        (
            f"{{sources: {{kafka: {{{SASL}, sasl_mechanism: AWS_MSK_IAM, username: u}}}}}}",
            "trigger.sources.kafka.username: not used by AWS_MSK_IAM",
        ),
        (
            f"{{sources: {{kafka: {{{SASL.replace('SSL', 'PLAINTEXT')}, sasl_mechanism: AWS_MSK_IAM}}}}}}",
            "trigger.sources.kafka.security_protocol: AWS_MSK_IAM needs SASL_SSL",
        ),
        (
            f"{{sources: {{kafka: {{{SASL}, sasl_mechanism: PLAIN, username: u, password: p, region: r}}}}}}",
            "trigger.sources.kafka.region: not used by PLAIN",
        ),
        (
            "{sources: {kafka: {bootstrap_servers: a, ca_file: ca.pem}}}",
            "trigger.sources.kafka.ca_file: not used by PLAINTEXT",
        ),
        (
            "{sources: {kafka: {bootstrap_servers: a, security_protocol: SSL, key_file: k.pem}}}",
            "trigger.sources.kafka.certificate_file: missing: a certificate and its key belong together",
        ),
        ("{sources: {http: {}}}", "trigger.sources.http.token: missing"),
        ("{sources: {nats: {}}}", "trigger.sources.nats: unknown key"),
    ],
)
def test_invalid_trigger_settings_are_refused(refuse: Refuse, trigger: str, problem: str) -> None:
    (found,) = refuse(f"{CATALOG}{TABLES}trigger: {trigger}\n")
    assert found.removeprefix("icemirror.yaml:3: ").startswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("batch_size: 0", "batch_size: must be more than 0; found '0'"),
        ("merge_interval: 0s", "merge_interval: must be more than 0"),
        ("job: {max_slice_bytes: 0}", "job.max_slice_bytes: must be more than 0"),
        (
            "job: {spark: {driver.memory: 1g}}",
            'job.spark["driver.memory"]: Spark properties start with `spark.`',
        ),
        ("telemetry: {prometheus: '9464'}", "telemetry.prometheus: '9464' is not an address"),
        (
            "telemetry: {log_level: INFO}",
            "telemetry.log_level: expected debug, info, warning or error; found 'INFO'",
        ),
        ("telemetry: {otlp: 'localhost:4318'}", "telemetry.otlp: expected a URL such as http://"),
        ("sentry: {}", "sentry.dsn: missing"),
    ],
)
def test_invalid_global_settings_are_refused(refuse: Refuse, text: str, problem: str) -> None:
    (found,) = refuse(f"{CATALOG}{TABLES}{text}\n")
    assert found.removeprefix("icemirror.yaml:3: ").startswith(problem)
