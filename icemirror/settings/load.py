"""From a file to `Settings`, or to one error that lists everything to correct."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from icemirror.errors import BadConfig
from icemirror.settings.document import Document, read_document
from icemirror.settings.environment import interpolate
from icemirror.settings.explain import correct_unknown_keys, explain
from icemirror.settings.model import SWITCHABLE_SECTIONS, Settings
from icemirror.settings.problems import Problem, show_problems
from icemirror.settings.trigger import SqliteState


def load_settings(path: Path, environ: Mapping[str, str]) -> Settings:
    """The settings in a file, with `${NAME}` filled in."""
    return parse_settings(read_text(path), path, environ)


def parse_settings(text: str, path: Path, environ: Mapping[str, str]) -> Settings:
    """The settings in the text of the file that was at this path."""
    document = read_document(text)
    if document.value is None and not document.problems:
        raise BadConfig(f"{path}: the file is empty")
    if not isinstance(document.value, dict):
        document.problem((), "expected keys and values at the top, such as `iceberg:` and `tables:`")
        raise BadConfig(show_problems(str(path), document.problems[:1]))
    interpolate(document, environ, SWITCHABLE_SECTIONS)
    if "sentry" not in document.value and (dsn := environ.get("SENTRY_DSN", "").strip()):
        document.value["sentry"] = {"dsn": dsn}
    settings, problems = _validate(document)
    if settings is None or problems:
        raise BadConfig(show_problems(str(path), problems))
    return _anchor(settings, path.absolute())


def read_text(path: Path) -> str:
    """The text of a configuration file."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise BadConfig(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise BadConfig(f"{path}: this is a folder, not a configuration file") from None
    except UnicodeDecodeError as error:
        raise BadConfig(f"{path}: not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise BadConfig(f"{path}: cannot be read: {error.strerror}") from None


def _validate(document: Document) -> tuple[Settings | None, list[Problem]]:
    """The settings and all problems; unknown keys are corrected first, lest they hide what else is wrong."""
    problems = list(document.problems)
    told = {problem.path for problem in problems if problem.path}
    try:
        return Settings.model_validate(document.value), problems
    except ValidationError as error:
        problems += correct_unknown_keys(error, document)
    try:
        return Settings.model_validate(document.value), problems
    except ValidationError as error:
        problems += [problem for problem in explain(error, document) if not _is_told(problem, told)]
    return None, problems


def _is_told(problem: Problem, told: set[tuple[str | int, ...]]) -> bool:
    """The value is unset, so what else is wrong with it is a consequence."""
    return any(problem.path[: len(path)] == path for path in told)


def _anchor(settings: Settings, path: Path) -> Settings:
    """Paths that are relative to the configuration file, made absolute."""
    state = settings.trigger.state
    if isinstance(state, SqliteState):
        state = state.model_copy(update={"path": path.parent / state.path})
        trigger = settings.trigger.model_copy(update={"state": state})
        settings = settings.model_copy(update={"trigger": trigger})
    settings._source_path = path
    return settings
