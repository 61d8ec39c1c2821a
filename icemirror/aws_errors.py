"""AWS failures that a retry cannot solve, for every service: permissions, credentials, region."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from icemirror.errors import BadConfig

# Parts of an error code: `AccessDeniedException`, and for keys `KMS.AccessDeniedException`. Expired tokens
# are not listed: the environment of a long-running process renews them.
_REFUSAL_CODES = (
    "AccessDenied",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignature",
    "MissingAuthenticationToken",
    "NotAuthorized",
    "SignatureDoesNotMatch",
    "UnrecognizedClient",
)


def aws_error_code(error: Exception) -> str:
    """Return the code of an AWS error; empty for other errors, such as a closed connection."""
    response = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def aws_error_message(error: Exception) -> str:
    """Return the message of an AWS error; empty for other errors, which may quote the request."""
    response = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Message", "")).strip()


def is_refused(error: Exception) -> bool:
    """Return whether AWS refused the request, or credentials or region are missing: a retry cannot help."""
    from botocore.exceptions import (
        NoCredentialsError,
        NoRegionError,
        PartialCredentialsError,
        ProfileNotFound,
        SSOTokenLoadError,
        UnauthorizedSSOTokenError,
    )

    not_configured = (
        NoCredentialsError,
        NoRegionError,
        PartialCredentialsError,
        ProfileNotFound,
        SSOTokenLoadError,
        UnauthorizedSSOTokenError,
    )
    return isinstance(error, not_configured) or any(code in aws_error_code(error) for code in _REFUSAL_CODES)


@contextmanager
def translate_client_errors(section: str, region_key: str) -> Iterator[None]:
    """Raise `BadConfig` for a client that cannot be created. `section` configures it; `region_key` sets its region."""
    from botocore.exceptions import BotoCoreError, NoRegionError

    try:
        yield
    except NoRegionError:
        raise BadConfig(f"{section}: no AWS region is set: add {region_key}, or set AWS_REGION") from None
    except (BotoCoreError, ValueError) as error:  # (ValueError: an invalid endpoint)
        raise BadConfig(
            f"{section}: cannot create an AWS client: {error}. Check region and endpoint"
        ) from error
