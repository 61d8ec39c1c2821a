"""AWS failures that a retry cannot solve, for every service."""

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


def answered(code: str, message: str = "") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "Call")


@pytest.mark.parametrize(
    "error",
    [
        answered("AccessDeniedException"),
        answered("KMS.AccessDeniedException"),
        answered("KmsAccessDenied"),
        answered("UnrecognizedClientException"),
        answered("InvalidSignatureException"),
        answered("NotAuthorized"),
        NoCredentialsError(),
        NoRegionError(),
        PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"),
        ProfileNotFound(profile="nobody"),
    ],
)
def test_permissions_and_credentials_block(error: Exception) -> None:
    assert is_refused(error)


@pytest.mark.parametrize(
    "error",
    [
        answered("ThrottlingException"),
        answered("InternalServerError"),
        answered("ExpiredToken"),
        answered("ExpiredTokenException"),
        EndpointConnectionError(endpoint_url="http://e"),
        ReadTimeoutError(endpoint_url="http://e"),
        OSError("no route"),
        ValueError("half an answer"),
    ],
)
def test_transient_errors_do_not_block(error: Exception) -> None:
    assert not is_refused(error)


def test_code_and_message_come_from_aws() -> None:
    assert (aws_error_code(answered("A", " why ")), aws_error_message(answered("A", " why "))) == ("A", "why")
    assert (aws_error_code(OSError("secret")), aws_error_message(OSError("secret"))) == ("", "")
