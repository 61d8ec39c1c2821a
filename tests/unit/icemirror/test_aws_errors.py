"""AWS errors that a retry cannot solve, for every service."""

from __future__ import annotations

import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    ReadTimeoutError,
)

from icemirror.aws_errors import aws_error_code, aws_error_message, is_refused


def client_error(code: str, message: str = "") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "Call")


@pytest.mark.parametrize(
    "error",
    [
        client_error("AccessDeniedException"),
        client_error("KMS.AccessDeniedException"),
        client_error("KmsAccessDenied"),
        client_error("UnrecognizedClientException"),
        client_error("InvalidSignatureException"),
        client_error("NotAuthorized"),
        NoCredentialsError(),
        NoRegionError(),
        PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"),
        ProfileNotFound(profile="nobody"),
    ],
)
def test_permission_and_credential_errors_are_refusals(error: Exception) -> None:
    assert is_refused(error)


@pytest.mark.parametrize(
    "error",
    [
        client_error("ThrottlingException"),
        client_error("InternalServerError"),
        client_error("ExpiredToken"),
        client_error("ExpiredTokenException"),
        EndpointConnectionError(endpoint_url="http://e"),
        ReadTimeoutError(endpoint_url="http://e"),
        OSError("no route"),
        ValueError("half an answer"),
    ],
)
def test_transient_errors_are_not_refusals(error: Exception) -> None:
    assert not is_refused(error)


def test_code_and_message_are_those_of_aws() -> None:
    assert (aws_error_code(client_error("A", " why ")), aws_error_message(client_error("A", " why "))) == (
        "A",
        "why",
    )
    assert (aws_error_code(OSError("secret")), aws_error_message(OSError("secret"))) == ("", "")
