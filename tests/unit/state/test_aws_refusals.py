"""What of AWS needs a person, whichever service says it."""

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

from icemirror.aws_refusals import code_of, is_refused, text_of


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
def test_permissions_and_credentials_need_a_person(error: Exception) -> None:
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
def test_what_passes_by_itself_does_not(error: Exception) -> None:
    assert not is_refused(error)


def test_the_code_and_the_words_are_awss_own() -> None:
    assert (code_of(answered("A", " why ")), text_of(answered("A", " why "))) == ("A", "why")
    assert (code_of(OSError("secret")), text_of(OSError("secret"))) == ("", "")
