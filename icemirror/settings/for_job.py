"""The configuration as a job that runs elsewhere is given it: in an argument, which others may read.

What came from the environment is filled in, except for secrets: those stay `${NAME}`, for the job's own environment.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from icemirror.errors import BadConfig, Invalid
from icemirror.settings.document import Document, Path, read_document
from icemirror.settings.environment import Interpolated, Unset, interpolate, names_in
from icemirror.settings.load import read_text
from icemirror.settings.masking import url_secrets
from icemirror.settings.model import SWITCHABLE_SECTIONS, Settings
from icemirror.settings.packed import pack_config
from icemirror.settings.problems import show_problems

_OF_THE_TRIGGER = ("launcher", "sources")
# Narrower than what is hidden from view: `token-refresh-enabled: true` may well be written in the file.
_ALWAYS_SECRET = re.compile(
    r"(token|secret|password|passphrase|credential|dsn|authorization|connection-string"
    r"|(access|account|api|secret)[._-]?key([._-]id)?)$",
    re.IGNORECASE,
)
_LONGEST_ARGUMENT = 60_000  # Linux takes 128 KiB


@dataclass(frozen=True)
class ForJob:
    """The text, and the environment variables that it leaves to the job."""

    text: str
    variables: frozenset[str]


def for_job(settings: Settings, environ: Mapping[str, str]) -> ForJob:
    """What a job needs of the file that these settings came from; `BadConfig` if a secret is written in it."""
    path = settings.source_path
    document = read_document(read_text(path))
    interpolate(document, environ, SWITCHABLE_SECTIONS)
    document.problems.clear()  # the settings were loaded, so what is unset is not needed
    match document.value:
        case {"trigger": dict(trigger)}:
            for name in _OF_THE_TRIGGER:
                trigger.pop(name, None)
    variables: set[str] = set()
    value = _written(document, document.value, (), settings.secret_values(), variables)
    if document.problems:
        raise BadConfig(show_problems(str(path), document.problems))
    return ForJob(json.dumps(value, ensure_ascii=False), frozenset(variables))


def _written(
    document: Document, value: object, path: Path, secrets: Collection[str], variables: set[str]
) -> object:
    match value:
        case dict():
            return {
                key: _written(document, item, (*path, key), secrets, variables) for key, item in value.items()
            }
        case list():
            return [
                _written(document, item, (*path, at), secrets, variables) for at, item in enumerate(value)
            ]
        case Interpolated() if value in secrets or _has_secret(value, secrets):
            if _has_secret(value.written, secrets):
                _refuse(document, path)
            variables.update(names_in(value.written))
            return value.written
        case Unset():
            return str(value)
        case str():
            named = value in secrets and _ALWAYS_SECRET.search(str(path[-1]))
            if not isinstance(value, Interpolated) and (named or _has_secret(value, secrets)):
                _refuse(document, path)
            return value.replace("${", "$${")
        case _:
            return value


def _has_secret(address: str, secrets: Collection[str]) -> bool:
    return any(secret in secrets for secret in url_secrets(address))


def _refuse(document: Document, path: Path) -> None:
    document.problem(
        path,
        "a secret is written here, and jobs get the configuration in an argument that others may read: "
        "write ${NAME}, and give NAME to the job by trigger.launcher.secrets",
    )


def pack(text: str) -> tuple[str, ...]:
    """The text as arguments. The same text gives the same arguments: a repeated launch must ask for the same."""
    packed = pack_config(text)
    return tuple(
        packed[start : start + _LONGEST_ARGUMENT] for start in range(0, len(packed), _LONGEST_ARGUMENT)
    )


def unpack(arguments: Sequence[str]) -> str:
    """The text that `pack` was given."""
    try:
        return gzip.decompress(base64.b64decode("".join(arguments), validate=True)).decode()
    except (binascii.Error, OSError, EOFError, UnicodeDecodeError) as error:
        raise Invalid(
            f"the configuration in the job's arguments cannot be read: {error}. Are the trigger and the job of the "
            "same release?"
        ) from None
