"""How changes are noticed, where the trigger keeps its state, and what it launches."""

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

from icemirror.settings.contradictions import Contradiction
from icemirror.settings.document import typed
from icemirror.settings.masking import mask_tree
from icemirror.settings.quantities import Seconds
from icemirror.settings.section import Name, Properties, Section, Url

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_KEY = re.compile(r"arn:[^:]+:kms:[^:]+:\d{12}:key/.", re.ASCII)
_CASE = "Which of the cases this is."


def _no_tilde(path: Path) -> Path:
    if path.parts[:1] and path.parts[0].startswith("~"):
        raise ValueError("`~` is not expanded: write ${HOME}")
    return path


def _split_servers(value: object) -> object:
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


def _variables(secrets: dict[str, str]) -> dict[str, str]:
    for name in secrets:
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of an environment variable")
    return secrets


StatePath = Annotated[Path, AfterValidator(_no_tilde)]
CertificatePath = Annotated[Path, AfterValidator(_no_tilde)]
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
# A part of a Kubernetes object: its shape is Kubernetes' own, so its values are of any type.
ObjectTemplate = Annotated[
    dict[str, Any],
    BeforeValidator(typed),
    PlainSerializer(mask_tree, return_type=dict[str, Any]),
    WithJsonSchema({"type": "object", "x-type": "mapping"}),
]


Secrets = Annotated[dict[Name, Name], AfterValidator(_variables)]
StartTimeout = Field(
    default="6h",
    validate_default=True,
    gt=0,
    description="A run that has not begun after this time is given up, and another launched.",
)


class SqliteState(Section):
    """State in a file on this machine: the embedded default."""

    type: Literal["sqlite"] = Field(default="sqlite", description=_CASE)
    path: StatePath = Field(
        default=Path(".icemirror/state.db"),
        description="The file; a relative path starts at the configuration file's folder.",
    )


class DynamoDbState(Section):
    """State in a DynamoDB table."""

    type: Literal["dynamodb"] = Field(description=_CASE)
    table: Name = Field(description="The table's name.")
    region: Name | None = Field(default=None, description="AWS region. Default: the environment's.")
    endpoint: Url | None = Field(
        default=None, description="Another address of the service, such as an emulator's."
    )


class KubernetesState(Section):
    """State in Kubernetes objects."""

    type: Literal["kubernetes"] = Field(description=_CASE)
    namespace: Name = Field(description="Namespace of the objects, best one of their own.")


class LocalLauncher(Section):
    """Spark as a process on this machine: the embedded default."""

    type: Literal["local"] = Field(default="local", description=_CASE)


class EmrServerlessLauncher(Section):
    """Spark on EMR Serverless."""

    type: Literal["emr-serverless"] = Field(description=_CASE)
    application_id: Name = Field(description="The EMR Serverless application.")
    execution_role_arn: Name = Field(description="The role that jobs run as.")
    region: Name | None = Field(default=None, description="AWS region. Default: the environment's.")
    entry_point: Name = Field(
        description="`icemirror_job.py`, where it was uploaded to (`s3://…`) or is in a custom image (`local://…`)."
    )
    archives: tuple[Name, ...] = Field(
        default=(),
        description="The job's Python environment, packed, `s3://…`; the first one's Python runs the job.",
    )
    python: Name = Field(
        default="/opt/icemirror/venv/bin/python",
        description="The Python that runs the job in a custom image, where there are no `archives`. Default: "
        "that of our image.",
    )
    log_uri: Name | None = Field(default=None, description="Where the job's logs go, `s3://…`.")
    disk_key_arn: Name | None = Field(
        default=None,
        description="KMS key of the disks of a job's workers, `arn:aws:kms:…:key/…`. Default: the application's, "
        "else EMR's own.",
    )
    log_key_arn: Name | None = Field(
        default=None,
        description="KMS key of the logs that EMR itself keeps of a job, `arn:aws:kms:…:key/…`. Default: EMR's own.",
    )
    timeout: Seconds = Field(
        default="6h", validate_default=True, ge=60, description="A run is cancelled after this time."
    )
    start_timeout: Seconds = StartTimeout
    secrets: Secrets = Field(
        default={},
        description="Environment variables of the job, each with the Secrets Manager secret that holds its value.",
    )
    tags: Properties = Field(default={}, description="Tags of the job runs.")
    endpoint: Url | None = Field(
        default=None, description="Another address of the service, such as an emulator's."
    )

    def contradictions(self) -> Iterator[Contradiction]:
        """Names that AWS would refuse only when the first job is launched."""
        if not self.execution_role_arn.startswith("arn:"):
            yield Contradiction(("execution_role_arn",), "expected a role's ARN, arn:aws:iam::…:role/…")
        for name, key in {"disk_key_arn": self.disk_key_arn, "log_key_arn": self.log_key_arn}.items():
            if key is not None and not _KEY.match(key):
                yield Contradiction((name,), "expected a key's ARN, arn:aws:kms:…:key/…, not an alias")
        located: list[tuple[tuple[str | int, ...], str | None]] = [
            (("entry_point",), self.entry_point),
            (("log_uri",), self.log_uri),
        ]
        located += [(("archives", at), archive) for at, archive in enumerate(self.archives)]
        for path, uri in located:
            in_image = path == ("entry_point",) and str(uri).startswith("local://")
            if uri is not None and not uri.startswith("s3://") and not in_image:
                yield Contradiction(path, "expected an address in S3, s3://…")


class KubernetesLauncher(Section):
    """Spark on Kubernetes, through a Spark operator."""

    type: Literal["kubernetes"] = Field(description=_CASE)
    namespace: Name = Field(description="Namespace of the jobs.")
    image: Name = Field(description="The job's container image.")
    service_account: Name = Field(description="Service account of the Spark driver.")
    api_version: Name = Field(
        default="sparkoperator.k8s.io/v1beta2", description="API of the operator's `SparkApplication`."
    )
    entry_point: Name = Field(
        default="local:///opt/icemirror/icemirror_job.py", description="`icemirror_job.py` in the image."
    )
    start_timeout: Seconds = StartTimeout
    keep: Seconds = Field(
        default="1d", validate_default=True, description="A run that ended stays visible this long."
    )
    secrets: Secrets = Field(
        default={},
        description="Environment variables of the job, each with the Secret that holds its value, `name/key`.",
    )
    template: ObjectTemplate = Field(default={}, description="Merged over the `SparkApplication`.")

    def contradictions(self) -> Iterator[Contradiction]:
        """An API has a group and a version, and a value in a Secret its key."""
        group, slash, version = self.api_version.partition("/")
        if not (group and slash and version):
            yield Contradiction(("api_version",), "expected group/version, sparkoperator.k8s.io/v1beta2")
        for variable, place in self.secrets.items():
            if [bool(part) for part in place.split("/")] != [True, True]:
                yield Contradiction(("secrets", variable), "expected name/key of a Secret")


class KafkaSource(Section):
    """Commit events from Kafka."""

    bootstrap_servers: Servers = Field(description="The brokers to start from.")
    topics: tuple[Name, ...] = Field(
        default=(), description="Topics with commit events; none: nothing is read."
    )
    group_id: Name = Field(default="icemirror", description="Consumer group.")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="How to talk to the brokers."
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "AWS_MSK_IAM"] | None = Field(
        default=None,
        description="How to log in, with a SASL protocol. AWS_MSK_IAM: by the credentials of the environment.",
    )
    username: Name | None = Field(default=None, description="SASL user.")
    password: SecretStr | None = Field(default=None, description="SASL password.")
    region: Name | None = Field(
        default=None, description="AWS region of the brokers, for AWS_MSK_IAM. Default: the environment's."
    )
    ca_file: CertificatePath | None = Field(
        default=None, description="Certificates of authorities to trust (PEM). Default: the system's."
    )
    certificate_file: CertificatePath | None = Field(
        default=None, description="Our own certificate (PEM), where brokers ask for one."
    )
    key_file: CertificatePath | None = Field(
        default=None, description="Its private key (PEM), not encrypted."
    )

    def contradictions(self) -> Iterator[Contradiction]:
        """A login is complete and used, or absent; certificates are for TLS."""
        sasl, by_iam = self.security_protocol.startswith("SASL"), self.sasl_mechanism == "AWS_MSK_IAM"
        needed = ("sasl_mechanism",) if by_iam else ("sasl_mechanism", "username", "password")
        for key in ("sasl_mechanism", "username", "password", "region"):
            given = getattr(self, key) is not None
            if sasl and not given and key in needed:
                yield Contradiction((key,), f"missing: {self.security_protocol} needs it")
            elif given and not sasl:
                yield Contradiction(
                    (key,), f"not used by {self.security_protocol}: choose SASL_SSL or SASL_PLAINTEXT"
                )
            elif given and (by_iam != (key == "region")) and key != "sasl_mechanism":
                yield Contradiction((key,), f"not used by {self.sasl_mechanism}")
        if by_iam and self.security_protocol == "SASL_PLAINTEXT":
            yield Contradiction(("security_protocol",), "AWS_MSK_IAM needs SASL_SSL")
        for key in ("ca_file", "certificate_file", "key_file"):
            if getattr(self, key) is not None and not self.security_protocol.endswith("SSL"):
                yield Contradiction((key,), f"not used by {self.security_protocol}: choose SSL or SASL_SSL")
        if (self.certificate_file is None) != (self.key_file is None):
            missing = "certificate_file" if self.certificate_file is None else "key_file"
            yield Contradiction((missing,), "missing: a certificate and its key come together")


class SqsSource(Section):
    """Notifications from an SQS queue."""

    queue_url: Name = Field(description="The queue.")
    region: Name | None = Field(default=None, description="AWS region. Default: the environment's.")
    endpoint: Url | None = Field(
        default=None, description="Another address of the service, such as an emulator's."
    )


class HttpSource(Section):
    """Notifications by `POST /notify`."""

    token: SecretStr = Field(
        min_length=1,
        description="Bearer token that a sender must show; without one only this machine may send.",
    )


class Sources(Section):
    """Where commit events come from; the sweep finds what no event tells."""

    kafka: KafkaSource | None = Field(default=None, description="Commit events from Kafka.")
    sqs: SqsSource | None = Field(default=None, description="Notifications from an SQS queue.")
    http: HttpSource | None = Field(default=None, description="Notifications by HTTP.")


State = Annotated[SqliteState | DynamoDbState | KubernetesState, Field(discriminator="type")]
Launcher = Annotated[LocalLauncher | EmrServerlessLauncher | KubernetesLauncher, Field(discriminator="type")]


class TriggerSettings(Section):
    """The light part: notices, coalesces, launches."""

    state: State = Field(default=SqliteState(), description="Where the trigger and its jobs keep their rows.")
    launcher: Launcher = Field(default=LocalLauncher(), description="Where Spark runs.")
    sources: Sources = Field(
        default=Sources(),
        description="Where `serve` hears of commits. `watch` looks at the heads itself, and reads none of them.",
    )
    poll_interval: Seconds = Field(
        default="1s",
        validate_default=True,
        gt=0,
        description="How often `watch` looks at the heads of the changelogs. `serve` does so every `merge_interval`.",
    )
    quiet_period: Seconds = Field(
        default="2s", validate_default=True, description="Wait for more commits this long after the last one."
    )
    max_wait: Seconds = Field(
        default="30s", validate_default=True, description="But not longer than this after the first one."
    )
    max_concurrent_jobs: int = Field(default=1, ge=1, description="Spark jobs of one group at once.")
    max_failures: int = Field(
        default=5, ge=1, description="A table that failed this often in a row is quarantined."
    )
    lease: Seconds = Field(
        default="10m",
        validate_default=True,
        gt=0,
        description="A job that has not been heard of for so long counts as dead.",
    )

    def contradictions(self) -> Iterator[Contradiction]:
        """Waiting has an end, and jobs can reach the state."""
        if self.quiet_period > self.max_wait:
            yield Contradiction(("quiet_period",), "longer than max_wait, so it could never pass")
        if isinstance(self.state, SqliteState) and not isinstance(self.launcher, LocalLauncher):
            remedy = "kubernetes or dynamodb" if isinstance(self.launcher, KubernetesLauncher) else "dynamodb"
            reason = f"sqlite is a file on this machine, which jobs of {self.launcher.type} cannot reach"
            yield Contradiction(("state", "type"), f"{reason}: use {remedy}")
