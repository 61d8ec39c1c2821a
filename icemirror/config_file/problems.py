"""Problems of a configuration file, shown as `icemirror.yaml:12: tables[0].profil: …`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*")


class Problem(NamedTuple):
    """One problem to correct."""

    line: int
    path: tuple[str | int, ...]
    message: str


def format_path(path: tuple[str | int, ...]) -> str:
    """Return a path as text, such as `tables[0].primary_keys`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


def format_problems(file: str, problems: Iterable[Problem]) -> str:
    """Return all problems of a file, one per line, in file order."""
    lines = list(
        dict.fromkeys(
            _format_problem(file, problem) for problem in sorted(problems, key=lambda problem: problem.line)
        )
    )
    return lines[0] if len(lines) == 1 else "\n".join((f"{len(lines)} problems in {file}", *lines))


def _format_problem(file: str, problem: Problem) -> str:
    location = f"{format_path(problem.path)}: " if problem.path else ""
    return f"{file}:{problem.line}: {location}{problem.message}"
