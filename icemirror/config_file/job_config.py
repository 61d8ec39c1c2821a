"""The configuration of a remote job, passed in its arguments, which other users may read.

Environment variables are filled in, except in secrets: those stay `${NAME}`, which the job's environment fills in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from icemirror.config_file.document import Document, KeyPath, read_document
from icemirror.config_file.environment import Interpolated, Unset, find_variables, interpolate
from icemirror.config_file.load import read_text
from icemirror.config_file.problems import format_problems
from icemirror.errors import BadConfig
from icemirror.settings.masking import url_secrets
from icemirror.settings.model import OPTIONAL_SECTIONS, Settings

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
    interpolate(document, environ, OPTIONAL_SECTIONS)
    document.problems.clear()  # the settings are valid, so unset variables are not needed
    match document.value:
        case {"trigger": dict(trigger)}:
            for name in _ONLY_FOR_TRIGGER:
                trigger.pop(name, None)
    writer = _JobConfigWriter(document, settings.secret_values())
    value = writer.convert(document.value, ())
    if document.problems:
        raise BadConfig(format_problems(str(path), document.problems))
    return JobConfig(json.dumps(value, ensure_ascii=False), frozenset(writer.variables))


class _JobConfigWriter:
    """Converts the values of a file; collects the variables that the job needs, and secrets in the file as problems."""

    def __init__(self, document: Document, secrets: Collection[str]) -> None:
        self._document = document
        self._secrets = secrets
        self.variables: set[str] = set()

    def convert(self, value: object, path: KeyPath) -> object:
        """Return a value as the job's file has it."""
        match value:
            case dict():
                return {key: self.convert(item, (*path, key)) for key, item in value.items()}
            case list():
                return [self.convert(item, (*path, index)) for index, item in enumerate(value)]
            case Interpolated() if value in self._secrets or self._has_secret(value):
                if self._has_secret(value.original):
                    self._refuse(path)
                self.variables.update(find_variables(value.original))
                return value.original
            case Unset():
                return str(value)
            case str():
                is_secret = value in self._secrets and _ALWAYS_SECRET.search(str(path[-1]))
                if not isinstance(value, Interpolated) and (is_secret or self._has_secret(value)):
                    self._refuse(path)
                return value.replace("${", "$${")
            case _:
                return value

    def _has_secret(self, address: str) -> bool:
        return any(secret in self._secrets for secret in url_secrets(address))

    def _refuse(self, path: KeyPath) -> None:
        self._document.add_problem(
            path,
            "a secret in the file would be readable in the job's arguments: "
            "write ${NAME}, and pass NAME to the job with trigger.launcher.secrets",
        )
