"""Environment variables in the configuration: `${NAME}` is replaced by the value; `$${` is a literal `${`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from icemirror.config_file.document import Document, KeyPath

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[^}]*)(?P<end>\}?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Unset(str):
    """A value that refers to unset environment variables: its text, and their names."""

    names: tuple[str, ...]


class Interpolated(str):
    """A value with environment variables filled in, and its original text, which is safe to show."""

    original: str


def interpolate(
    document: Document, environ: Mapping[str, str], optional_sections: Collection[KeyPath]
) -> None:
    """Fill in environment variables. An optional section whose variables are all unset is removed."""
    document.value = _fill(document, document.value, (), environ)
    for path in optional_sections:
        _drop_unset_section(document.value, path)
    for path, unset in _find_unset(document.value, ()):
        variables = " and ".join(unset.names)
        are = "are" if len(unset.names) > 1 else "is"
        document.add_problem(path, f"the environment variable {variables} {are} not set (or empty)")


def _fill(document: Document, value: object, path: KeyPath, environ: Mapping[str, str]) -> object:
    match value:
        case dict():
            return {key: _fill(document, item, (*path, key), environ) for key, item in value.items()}
        case list():
            return [_fill(document, item, (*path, index), environ) for index, item in enumerate(value)]
        case str() if "${" in value:
            return _fill_text(document, value, path, environ)
        case _:
            return value


def _fill_text(document: Document, text: str, path: KeyPath, environ: Mapping[str, str]) -> str:
    missing: list[str] = []
    names: list[str] = []

    def replace_reference(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return "${"
        if not match["end"] or not _NAME.fullmatch(name):
            document.add_problem(
                path, f"{match[0]!r} is not a variable: write ${{NAME}}, or $${{ for a literal ${{"
            )
            return match[0]
        names.append(name)
        if name not in environ:
            missing.append(name)
        # A secret created with `echo` ends in a newline.
        return environ.get(name, "").rstrip("\r\n")

    filled = _REFERENCE.sub(replace_reference, text)
    if missing or (names and not filled):
        unset = Unset(text)
        unset.names = tuple(dict.fromkeys(missing or names))
        return unset
    if not names:
        return filled
    interpolated = Interpolated(filled)
    interpolated.original = text
    return interpolated


def _drop_unset_section(root: object, path: KeyPath) -> None:
    *parents, key = path
    section = root
    for step in parents:
        section = section.get(step) if isinstance(section, dict) else None
    if not isinstance(section, dict) or key not in section:
        return
    leaves = list(_leaves(section[key]))
    if leaves and all(isinstance(leaf, Unset) for leaf in leaves):
        section[key] = None


def _leaves(value: object) -> Iterator[object]:
    match value:
        case dict():
            for item in value.values():
                yield from _leaves(item)
        case list():
            for item in value:
                yield from _leaves(item)
        case None:
            pass
        case _:
            yield value


def _find_unset(value: object, path: KeyPath) -> Iterator[tuple[KeyPath, Unset]]:
    match value:
        case dict():
            for key, item in value.items():
                yield from _find_unset(item, (*path, key))
        case list():
            for index, item in enumerate(value):
                yield from _find_unset(item, (*path, index))
        case Unset():
            yield path, value
        case _:
            pass


def find_variables(text: str) -> frozenset[str]:
    """Return the environment variables that a text refers to."""
    return frozenset(match["name"] for match in _REFERENCE.finditer(text) if match["name"])


def interpolated_values(value: object) -> Iterator[Interpolated]:
    """Yield all values at or below this one that contain environment variables."""
    for leaf in _leaves(value):
        if isinstance(leaf, Interpolated):
            yield leaf
