"""The login of `serve` to Kafka brokers."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from icemirror.errors import BadConfig
from icemirror.settings.trigger import KafkaSource
from trigger.listeners.kafka_login import MskTokens, connection_arguments, msk_token


def source(**options: object) -> KafkaSource:
    return KafkaSource.model_validate({"bootstrap_servers": "a:1, b:2", "topics": ["t"], **options})


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "secret-key"), ("AWS_SESSION_TOKEN", "session"),
        ("AWS_DEFAULT_REGION", "eu-west-1"), ("AWS_EC2_METADATA_DISABLED", "true"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)


def test_plain_connection_has_only_the_brokers() -> None:
    assert connection_arguments(source(), Path()) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "security_protocol": "PLAINTEXT",
    }


def test_password_login_sets_mechanism_and_tls() -> None:
    login = {"sasl_mechanism": "SCRAM-SHA-512", "username": "u", "password": "p"}
    arguments = connection_arguments(source(security_protocol="SASL_SSL", **login), Path())
    assert (
        arguments["sasl_mechanism"],
        arguments["sasl_plain_username"],
        arguments["sasl_plain_password"],
    ) == (
        "SCRAM-SHA-512",
        "u",
        "p",
    )
    context = arguments["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)


def test_unreadable_certificate_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="certificate or key cannot be read"):
        connection_arguments(source(security_protocol="SSL", ca_file="none.pem"), tmp_path)


@pytest.mark.usefixtures("credentials")
def test_msk_token_is_a_signed_request_without_the_secret() -> None:
    token = msk_token("eu-central-1")
    assert "=" not in token
    address = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    parameters = {name: values[0] for name, values in parse_qs(address.query).items()}
    assert (address.scheme, address.netloc) == ("https", "kafka.eu-central-1.amazonaws.com")
    assert parameters["Action"] == "kafka-cluster:Connect"
    assert (parameters["X-Amz-Algorithm"], parameters["X-Amz-Expires"]) == ("AWS4-HMAC-SHA256", "900")
    assert parameters["X-Amz-Credential"].endswith("/eu-central-1/kafka-cluster/aws4_request")
    assert parameters["X-Amz-Security-Token"] == "session"
    assert {"X-Amz-Date", "X-Amz-Signature", "X-Amz-SignedHeaders", "User-Agent"} <= parameters.keys()
    assert "secret-key" not in address.query


@pytest.mark.usefixtures("credentials")
def test_msk_uses_the_region_of_the_environment() -> None:
    arguments = connection_arguments(
        source(security_protocol="SASL_SSL", sasl_mechanism="AWS_MSK_IAM"), Path()
    )
    assert arguments["sasl_mechanism"] == "OAUTHBEARER"
    provider = arguments["sasl_oauth_token_provider"]
    assert isinstance(provider, MskTokens)
    assert provider._region == "eu-west-1"
