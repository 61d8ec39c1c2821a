"""How commits are detected, where the state is stored, and how jobs are launched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    SecretStr,
    WithJsonSchema,
)

from icemirror.settings.masking import mask_tree
from icemirror.settings.quantities import Seconds
from icemirror.settings.section import Name, Properties, Section, Url, with_yaml_types
from icemirror.settings.setting_problems import SettingProblem

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_KMS_KEY_ARN = re.compile(r"arn:[^:]+:kms:[^:]+:\d{12}:key/.", re.ASCII)
_VARIANT_DESCRIPTION = "Selects this variant."


def _refuse_tilde(path: Path) -> Path:
    if path.parts[:1] and path.parts[0].startswith("~"):
        raise ValueError("`~` is not expanded: write ${HOME}")
    return path


def _split_servers(value: object) -> object:
    return tuple(server.strip() for server in value.split(",")) if isinstance(value, str) else value


def _check_variable_names(secrets: dict[str, str]) -> dict[str, str]:
    for name in secrets:
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of an environment variable")
    return secrets


StatePath = Annotated[Path, AfterValidator(_refuse_tilde)]
CertificatePath = Annotated[Path, AfterValidator(_refuse_tilde)]
Servers = Annotated[
    tuple[Name, ...],
    BeforeValidator(_split_servers),
    Field(min_length=1),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}],
            "examples": ["broker-1:9092,broker-2:9092"],
            "x-type": "text with commas, or a list of text",
        }
    ),
]
# A part of a Kubernetes object; Any: Kubernetes defines its structure.
ObjectTemplate = Annotated[
    dict[str, Any],
    BeforeValidator(with_yaml_types),
    PlainSerializer(mask_tree, return_type=dict[str, Any]),
    WithJsonSchema({"type": "object", "x-type": "mapping"}),
]


Secrets = Annotated[dict[Name, Name], AfterValidator(_check_variable_names)]
StartTimeout = Field(
    default="6h",
    validate_default=True,
    gt=0,
    description="A run that has not started after this time is cancelled and launched again.",
)


class SqliteState(Section):
    """State in a file on this machine: the default."""

    type: Literal["sqlite"] = Field(default="sqlite", description=_VARIANT_DESCRIPTION)
    path: StatePath = Field(
        default=Path(".icemirror/state.db"),
        description="The file; a relative path starts in the configuration file's folder.",
    )


class DynamoDbState(Section):
    """State in a DynamoDB table."""

    type: Literal["dynamodb"] = Field(description=_VARIANT_DESCRIPTION)
    table: Name = Field(description="The table's name.")
    region: Name | None = Field(default=None, description="AWS region. Default: from the environment.")
    endpoint: Url | None = Field(
        default=None, description="URL of the service, for example of an emulator. Default: AWS."
    )


class KubernetesState(Section):
    """State in Kubernetes objects."""

    type: Literal["kubernetes"] = Field(description=_VARIANT_DESCRIPTION)
    namespace: Name = Field(description="Namespace of the objects, preferably a separate one.")


class LocalLauncherSettings(Section):
    """Spark as a process on this machine: the default."""

    type: Literal["local"] = Field(default="local", description=_VARIANT_DESCRIPTION)


class EmrServerlessLauncherSettings(Section):
    """Spark on EMR Serverless."""

    type: Literal["emr-serverless"] = Field(description=_VARIANT_DESCRIPTION)
    application_id: Name = Field(description="Id of the EMR Serverless application.")
    execution_role_arn: Name = Field(description="IAM role of the jobs.")
    region: Name | None = Field(default=None, description="AWS region. Default: from the environment.")
    entry_point: Name = Field(
        description="Location of `icemirror_job.py`: uploaded (`s3://…`) or in a custom image (`local://…`)."
    )
    archives: tuple[Name, ...] = Field(
        default=(),
        description="Packed Python environments of the job, `s3://…`; the first one's Python runs the job.",
    )
    python: Name = Field(
        default="/opt/icemirror/venv/bin/python",
        description="Python of a custom image, used if there are no `archives`. Default: the Python of icemirror's "
        "image.",
    )
    log_uri: Name | None = Field(default=None, description="Location of the job's logs, `s3://…`.")
    disk_key_arn: Name | None = Field(
        default=None,
        description="KMS key for the disks of the job's workers, `arn:aws:kms:…:key/…`. Default: the application's, "
        "else a key of EMR.",
    )
    log_key_arn: Name | None = Field(
        default=None,
        description="KMS key for the job logs that EMR stores, `arn:aws:kms:…:key/…`. Default: a key of EMR.",
    )
    timeout: Seconds = Field(
        default="6h", validate_default=True, ge=60, description="A run is cancelled after this time."
    )
    start_timeout: Seconds = StartTimeout
    secrets: Secrets = Field(
        default={},
        description="Environment variables of the job, each with the Secrets Manager secret of its value.",
    )
    tags: Properties = Field(default={}, description="Tags of the job runs.")
    endpoint: Url | None = Field(
        default=None, description="URL of the service, for example of an emulator. Default: AWS."
    )

    def problems(self) -> Iterator[SettingProblem]:
        """Yield values that AWS would refuse only at the first launch."""
        if not self.execution_role_arn.startswith("arn:"):
            yield SettingProblem(("execution_role_arn",), "expected the ARN of a role, arn:aws:iam::…:role/…")
        for name, key in {"disk_key_arn": self.disk_key_arn, "log_key_arn": self.log_key_arn}.items():
            if key is not None and not _KMS_KEY_ARN.match(key):
                yield SettingProblem((name,), "expected the ARN of a key, arn:aws:kms:…:key/…, not an alias")
        locations: list[tuple[tuple[str | int, ...], str | None]] = [
            (("entry_point",), self.entry_point),
            (("log_uri",), self.log_uri),
        ]
        locations += [(("archives", index), archive) for index, archive in enumerate(self.archives)]
        for path, uri in locations:
            in_image = path == ("entry_point",) and str(uri).startswith("local://")
            if uri is not None and not uri.startswith("s3://") and not in_image:
                yield SettingProblem(path, "expected an S3 location, s3://…")


class KubernetesLauncherSettings(Section):
    """Spark on Kubernetes, through a Spark operator."""

    type: Literal["kubernetes"] = Field(description=_VARIANT_DESCRIPTION)
    namespace: Name = Field(description="Namespace of the jobs.")
    image: Name = Field(description="Container image of the job.")
    service_account: Name = Field(description="Service account of the Spark driver.")
    api_version: Name = Field(
        default="sparkoperator.k8s.io/v1beta2",
        description="API version of the operator's `SparkApplication`.",
    )
    entry_point: Name = Field(
        default="local:///opt/icemirror/icemirror_job.py",
        description="Location of `icemirror_job.py` in the image.",
    )
    start_timeout: Seconds = StartTimeout
    keep: Seconds = Field(
        default="1d", validate_default=True, description="How long an ended run stays visible."
    )
    secrets: Secrets = Field(
        default={},
        description="Environment variables of the job, each with the Secret of its value, `name/key`.",
    )
    template: ObjectTemplate = Field(
        default={}, description="Fields merged over the generated `SparkApplication`."
    )

    def problems(self) -> Iterator[SettingProblem]:
        """Yield a problem unless the API version has group and version, and each secret name and key."""
        group, slash, version = self.api_version.partition("/")
        if not (group and slash and version):
            yield SettingProblem(("api_version",), "expected group/version, sparkoperator.k8s.io/v1beta2")
        for variable, secret in self.secrets.items():
            if secret.count("/") != 1 or not all(secret.split("/")):
                yield SettingProblem(("secrets", variable), "expected name/key of a Secret")


class KafkaSource(Section):
    """Commit events from Kafka."""

    bootstrap_servers: Servers = Field(description="Brokers for the first connection.")
    topics: tuple[Name, ...] = Field(
        default=(), description="Topics with commit events; empty: nothing is read."
    )
    group_id: Name = Field(default="icemirror", description="Consumer group.")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="Protocol of the brokers."
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "AWS_MSK_IAM"] | None = Field(
        default=None,
        description="SASL mechanism. `AWS_MSK_IAM` uses the AWS credentials of the environment.",
    )
    username: Name | None = Field(default=None, description="SASL user.")
    password: SecretStr | None = Field(default=None, description="SASL password.")
    region: Name | None = Field(
        default=None,
        description="AWS region of the brokers, for `AWS_MSK_IAM`. Default: from the environment.",
    )
    ca_file: CertificatePath | None = Field(
        default=None, description="Trusted CA certificates (PEM). Default: the system's."
    )
    certificate_file: CertificatePath | None = Field(
        default=None, description="Client certificate (PEM), if the brokers require one."
    )
    key_file: CertificatePath | None = Field(
        default=None, description="Private key of the client certificate (PEM), not encrypted."
    )

    def problems(self) -> Iterator[SettingProblem]:
        """Yield SASL settings that are missing or unused, and certificates without TLS."""
        uses_sasl, uses_iam = self.security_protocol.startswith("SASL"), self.sasl_mechanism == "AWS_MSK_IAM"
        required = ("sasl_mechanism",) if uses_iam else ("sasl_mechanism", "username", "password")
        for key in ("sasl_mechanism", "username", "password", "region"):
            is_set = getattr(self, key) is not None
            if uses_sasl and not is_set and key in required:
                yield SettingProblem((key,), f"missing: {self.security_protocol} needs it")
            elif is_set and not uses_sasl:
                yield SettingProblem(
                    (key,), f"not used by {self.security_protocol}: use SASL_SSL or SASL_PLAINTEXT"
                )
            elif is_set and (uses_iam != (key == "region")) and key != "sasl_mechanism":
                yield SettingProblem((key,), f"not used by {self.sasl_mechanism}")
        if uses_iam and self.security_protocol == "SASL_PLAINTEXT":
            yield SettingProblem(("security_protocol",), "AWS_MSK_IAM needs SASL_SSL")
        for key in ("ca_file", "certificate_file", "key_file"):
            if getattr(self, key) is not None and not self.security_protocol.endswith("SSL"):
                yield SettingProblem((key,), f"not used by {self.security_protocol}: use SSL or SASL_SSL")
        if (self.certificate_file is None) != (self.key_file is None):
            missing = "certificate_file" if self.certificate_file is None else "key_file"
            yield SettingProblem((missing,), "missing: a certificate and its key belong together")


class SqsSource(Section):
    """Events from an SQS queue."""

    queue_url: Name = Field(description="URL of the queue.")
    region: Name | None = Field(default=None, description="AWS region. Default: from the environment.")
    endpoint: Url | None = Field(
        default=None, description="URL of the service, for example of an emulator. Default: AWS."
    )


class HttpSource(Section):
    """Events by `POST /notify`."""

    token: SecretStr = Field(
        min_length=1,
        description="Bearer token that senders must present. Without this section only this machine may send.",
    )


class EventSources(Section):
    """Sources of commit events; the sweep finds commits without an event."""

    kafka: KafkaSource | None = Field(default=None, description="Commit events from Kafka.")
    sqs: SqsSource | None = Field(default=None, description="Events from an SQS queue.")
    http: HttpSource | None = Field(default=None, description="Events by HTTP.")


State = Annotated[SqliteState | DynamoDbState | KubernetesState, Field(discriminator="type")]
Launcher = Annotated[
    LocalLauncherSettings | EmrServerlessLauncherSettings | KubernetesLauncherSettings,
    Field(discriminator="type"),
]


class TriggerSettings(Section):
    """The trigger: detects commits, coalesces them, launches jobs."""

    state: State = Field(
        default=SqliteState(), description="Where the trigger and its jobs store their state."
    )
    launcher: Launcher = Field(default=LocalLauncherSettings(), description="Where Spark runs.")
    sources: EventSources = Field(
        default=EventSources(),
        description="Event sources of `serve`. `watch` polls the changelogs instead and reads none of them.",
    )
    poll_interval: Seconds = Field(
        default="1s",
        validate_default=True,
        gt=0,
        description="How often `watch` polls the heads of the changelogs. `serve` polls them every `merge_interval`.",
    )
    quiet_period: Seconds = Field(
        default="2s",
        validate_default=True,
        description="Wait this long after the last commit for more commits.",
    )
    max_wait: Seconds = Field(
        default="30s", validate_default=True, description="Wait at most this long after the first commit."
    )
    max_concurrent_jobs: int = Field(
        default=1, ge=1, description="Maximum number of concurrent Spark jobs per group."
    )
    max_failures: int = Field(
        default=5, ge=1, description="Quarantine a table after this many failures in a row."
    )
    lease: Seconds = Field(
        default="10m",
        validate_default=True,
        gt=0,
        description="A job without a heartbeat for this long counts as dead.",
    )

    def problems(self) -> Iterator[SettingProblem]:
        """Yield a problem unless waiting ends, and jobs can reach the state."""
        if self.quiet_period > self.max_wait:
            yield SettingProblem(("quiet_period",), "is longer than max_wait, so it would have no effect")
        if isinstance(self.state, SqliteState) and not isinstance(self.launcher, LocalLauncherSettings):
            remedy = (
                "kubernetes or dynamodb"
                if isinstance(self.launcher, KubernetesLauncherSettings)
                else "dynamodb"
            )
            reason = f"jobs of {self.launcher.type} cannot reach a sqlite file on this machine"
            yield SettingProblem(("state", "type"), f"{reason}: use {remedy}")
