"""Connections to Kafka brokers: TLS, SASL, and AWS credentials for MSK."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path
from typing import Any

from aiokafka.abc import AbstractTokenProvider

from icemirror.errors import BadConfig
from icemirror.settings.trigger import KafkaSource

_TOKEN_SECONDS = 900


def connection_arguments(source: KafkaSource, folder: Path) -> dict[str, Any]:
    """Return aiokafka's arguments, which have any type. Relative paths start at `folder`."""
    arguments: dict[str, Any] = {
        "bootstrap_servers": list(source.bootstrap_servers),
        "security_protocol": source.security_protocol,
    }
    if source.security_protocol.endswith("SSL"):
        arguments["ssl_context"] = _create_tls_context(source, folder)
    match source.sasl_mechanism:
        case None:
            return arguments
        case "AWS_MSK_IAM":
            return {
                **arguments,
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauth_token_provider": MskTokens(_find_region(source)),
            }
        case mechanism:
            password = source.password.get_secret_value() if source.password else None
            login = {"sasl_plain_username": source.username, "sasl_plain_password": password}
            return {**arguments, "sasl_mechanism": mechanism, **login}


def _create_tls_context(source: KafkaSource, folder: Path) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=folder / source.ca_file if source.ca_file else None)
        if source.certificate_file and source.key_file:
            context.load_cert_chain(folder / source.certificate_file, folder / source.key_file)
    except (OSError, ssl.SSLError) as error:
        raise BadConfig(f"trigger.sources.kafka: a certificate or key cannot be read: {error}") from error
    return context


def _find_region(source: KafkaSource) -> str:
    import boto3

    region = source.region or boto3.session.Session().region_name
    if not region:
        raise BadConfig("trigger.sources.kafka.region: missing, and not set in the environment")
    return str(region)


class MskTokens(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """Provides tokens for MSK: a signed connect request, which the brokers verify with AWS."""

    def __init__(self, region: str) -> None:
        self._region = region

    async def token(self) -> str:
        """Return a new token, signed with the current credentials of the environment."""
        return await asyncio.to_thread(msk_token, self._region)


def msk_token(region: str) -> str:
    """Return the signed URL of `kafka-cluster:Connect` in URL-safe base64 without padding."""
    import boto3
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest

    credentials = boto3.session.Session().get_credentials()
    if credentials is None:
        raise BadConfig("trigger.sources.kafka: AWS_MSK_IAM finds no credentials in the environment")
    address = f"https://kafka.{region}.amazonaws.com/?Action=kafka-cluster%3AConnect"
    request = AWSRequest("GET", address)
    SigV4QueryAuth(
        credentials.get_frozen_credentials(), "kafka-cluster", region, expires=_TOKEN_SECONDS
    ).add_auth(request)
    signed_url = f"{request.url}&User-Agent=icemirror"
    return base64.urlsafe_b64encode(signed_url.encode()).decode().rstrip("=")
