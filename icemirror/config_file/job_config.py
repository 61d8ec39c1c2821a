"""The configuration for a remote job, which gets it in its arguments, where others may read it.

Environment variables are filled in, except in secrets: those stay `${NAME}`, for the job's own environment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from icemirror.config_file.document import Document, Path, read_document
from icemirror.config_file.environment import Interpolated, Unset, interpolate, names_in
from icemirror.config_file.load import read_text
from icemirror.config_file.problems import show_problems
from icemirror.errors import BadConfig
from icemirror.settings.masking import url_secrets
from icemirror.settings.model import SWITCHABLE_SECTIONS, Settings

_ONLY_FOR_TRIGGER = ("launcher", "sources")
# Narrower than the masking of output: `token-refresh-enabled: true` may be in the file.
_ALWAYS_SECRET = re.compile(
    r"(token|secret|password|passphrase|credential|dsn|authorization|connection-string"
    r"|(access|account|api|secret)[._-]?key([._-]id)?)$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class JobConfig:
    """The text, and the environment variables that the job must have."""

    text: str
    variables: frozenset[str]


def config_for_job(settings: Settings, environ: Mapping[str, str]) -> JobConfig:
    """Return the part of the settings' file that a job needs; raise `BadConfig` if the file contains a secret."""
    path = settings.source_path
    document = read_document(read_text(path))
    interpolate(document, environ, SWITCHABLE_SECTIONS)
    document.problems.clear()  # the settings are valid, so unset variables are not needed
    match document.value:
        case {"trigger": dict(trigger)}:
            for name in _ONLY_FOR_TRIGGER:
                trigger.pop(name, None)
    variables: set[str] = set()
    value = _for_job(document, document.value, (), settings.secret_values(), variables)
    if document.problems:
        raise BadConfig(show_problems(str(path), document.problems))
    return JobConfig(json.dumps(value, ensure_ascii=False), frozenset(variables))


def _for_job(
    document: Document, value: object, path: Path, secrets: Collection[str], variables: set[str]
) -> object:
    match value:
        case dict():
            return {
                key: _for_job(document, item, (*path, key), secrets, variables) for key, item in value.items()
            }
        case list():
            return [
                _for_job(document, item, (*path, at), secrets, variables) for at, item in enumerate(value)
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
        "a secret in the file would be readable in the job's arguments: "
        "write ${NAME}, and pass NAME to the job with trigger.launcher.secrets",
    )
