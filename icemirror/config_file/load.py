"""Load `Settings` from a file, or raise one error that lists all problems."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from icemirror.config_file.document import Document, read_document
from icemirror.config_file.environment import interpolate
from icemirror.config_file.problems import Problem, format_problems
from icemirror.config_file.validation_errors import correct_unknown_keys, to_problems
from icemirror.errors import BadConfig
from icemirror.settings.model import OPTIONAL_SECTIONS, Settings
from icemirror.settings.trigger import SqliteState


def load_settings(path: Path, environ: Mapping[str, str]) -> Settings:
    """Return the settings of a file, with `${NAME}` filled in."""
    return parse_settings(read_text(path), path, environ)


def parse_settings(text: str, path: Path, environ: Mapping[str, str]) -> Settings:
    """Return the settings from a file's text; `path` is for messages and relative paths."""
    document = read_document(text)
    if document.value is None and not document.problems:
        raise BadConfig(f"the configuration file is empty: {path}")
    if not isinstance(document.value, dict):
        document.add_problem(
            (), "expected keys and values at the top level, such as `iceberg:` and `tables:`"
        )
        raise BadConfig(format_problems(str(path), document.problems[:1]))
    interpolate(document, environ, OPTIONAL_SECTIONS)
    if "sentry" not in document.value and (dsn := environ.get("SENTRY_DSN", "").strip()):
        document.value["sentry"] = {"dsn": dsn}
    settings, problems = _validate(document)
    if settings is None or problems:
        raise BadConfig(format_problems(str(path), problems))
    return _with_absolute_paths(settings, path.absolute())


def read_text(path: Path) -> str:
    """Return the text of a configuration file."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise BadConfig(f"the configuration file does not exist: {path}") from None
    except IsADirectoryError:
        raise BadConfig(f"expected a configuration file, found a folder: {path}") from None
    except UnicodeDecodeError as error:
        raise BadConfig(f"the configuration file is not UTF-8 text (byte {error.start}): {path}") from None
    except OSError as error:
        raise BadConfig(f"cannot read the configuration file ({error.strerror}): {path}") from None


def _validate(document: Document) -> tuple[Settings | None, list[Problem]]:
    """Return settings and problems. Unknown keys are corrected first, so that they do not hide other problems."""
    problems = list(document.problems)
    reported = {problem.path for problem in problems if problem.path}
    try:
        return Settings.model_validate(document.value), problems
    except ValidationError as error:
        problems += correct_unknown_keys(error, document)
    try:
        return Settings.model_validate(document.value), problems
    except ValidationError as error:
        problems += [
            problem for problem in to_problems(error, document) if not _is_consequence(problem, reported)
        ]
    return None, problems


def _is_consequence(problem: Problem, reported: set[tuple[str | int, ...]]) -> bool:
    """Return whether the problem follows from one already reported at the same path or above it."""
    return any(problem.path[: len(path)] == path for path in reported)


def _with_absolute_paths(settings: Settings, path: Path) -> Settings:
    """Return the settings with paths that are relative to the configuration file made absolute."""
    state = settings.trigger.state
    if isinstance(state, SqliteState):
        state = state.model_copy(update={"path": path.parent / state.path})
        trigger = settings.trigger.model_copy(update={"state": state})
        settings = settings.model_copy(update={"trigger": trigger})
    settings._source_path = path
    return settings
