"""What of AWS' failures needs a person, whichever service says it: permissions, credentials, region."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from icemirror.errors import BadConfig

# Anywhere in a code: services say `AccessDeniedException`, and of keys `KMS.AccessDeniedException`. A token that has
# expired is none of them: whoever lends one to a process that runs for long lends a new one.
_CODES = (
    "AccessDenied",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignature",
    "MissingAuthenticationToken",
    "NotAuthorized",
    "SignatureDoesNotMatch",
    "UnrecognizedClient",
)


def code_of(error: Exception) -> str:
    """Errors of AWS carry a code; anything else, a closed connection say, is no answer."""
    response = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def text_of(error: Exception) -> str:
    """What AWS says; of other errors nothing, since they may show what was sent."""
    response = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Message", "")).strip()


def is_refused(error: Exception) -> bool:
    """AWS refused the request, or it could not even be made, for want of credentials: trying again does not help."""
    from botocore.exceptions import (
        NoCredentialsError,
        NoRegionError,
        PartialCredentialsError,
        ProfileNotFound,
        SSOTokenLoadError,
        UnauthorizedSSOTokenError,
    )

    not_set_up = (
        NoCredentialsError,
        NoRegionError,
        PartialCredentialsError,
        ProfileNotFound,
        SSOTokenLoadError,
        UnauthorizedSSOTokenError,
    )
    return isinstance(error, not_set_up) or any(code in code_of(error) for code in _CODES)


@contextmanager
def making_client(where: str, region: str) -> Iterator[None]:
    """While a client is made: what stops that is a fault of the settings at `where`, and `region` is one of them."""
    from botocore.exceptions import BotoCoreError, NoRegionError

    try:
        yield
    except NoRegionError:
        raise BadConfig(f"{where}: no AWS region: give {region}, or set AWS_REGION") from None
    except (BotoCoreError, ValueError) as error:  # (ValueError: an endpoint that is no address)
        raise BadConfig(f"{where}: AWS cannot be asked: {error}") from error
