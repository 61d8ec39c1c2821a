"""A YAML file as plain values with their line numbers.

Scalars stay text, even if YAML would convert them (`1.10`, `no`, `12:30`, a date): the models assign types. Only null
is null. No object is ever constructed from a tag.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from icemirror.config_file.problems import Problem
from icemirror.settings.section import PlainScalar

KeyPath = tuple[str | int, ...]
"""Keys and list indexes from the top of the file to a value."""

_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"
_TYPED = tuple(f"tag:yaml.org,2002:{name}" for name in ("bool", "int", "float"))
_TEXT = tuple(f"tag:yaml.org,2002:{name}" for name in ("str", "timestamp", "value"))
_CONTAINERS = tuple(f"tag:yaml.org,2002:{name}" for name in ("map", "seq"))
# Aliases can expand a small file into a huge one; no real configuration comes near this.
_MAX_VALUES = 100_000
_MAX_DEPTH = 100
_TOO_DEEP = "nested too deeply"
_END_IN_BRACKETS = "<stream end>"  # (in PyYAML's message)
_END_IN_QUOTES = "unexpected end of stream"


@dataclass(slots=True)
class Document:
    """The values of a file, and the line of each value by its path."""

    value: object = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def find_line(self, path: KeyPath) -> int:
        """Return the line of a value, or of its nearest existing parent."""
        while path not in self.lines and path:
            path = path[:-1]
        return self.lines.get(path, 1)

    def rename_or_remove(self, path: KeyPath, name: str | None) -> None:
        """Rename the key at a path, or remove it if `name` is None or exists: the other keys can then be validated."""
        *parents, key = path
        mapping: Any = self.value  # (follows a path that exists)
        for step in parents:
            mapping = mapping[step]
        value = mapping.pop(key)
        if name is None or name in mapping:
            return
        mapping[name] = value
        new_path = (*parents, name)
        for inner in [inner for inner in self.lines if inner[: len(path)] == path]:
            self.lines[(*new_path, *inner[len(path) :])] = self.lines[inner]

    def add_problem(self, path: KeyPath, message: str, line: int | None = None) -> None:
        """Add a problem at a path."""
        self.problems.append(Problem(self.find_line(path) if line is None else line, path, message))


def read_document(text: str) -> Document:
    """Parse the only YAML document in the text."""
    document = Document()
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        document.add_problem((), _syntax_problem(error, text), _syntax_error_line(error))
    except yaml.YAMLError as error:
        document.add_problem((), f"not valid YAML: {_reader_problem(error)}")
    except RecursionError:
        document.add_problem((), _TOO_DEEP)
    else:
        if root is not None:
            document.value = _NodeReader(document).read(root, ())
    return document


def _syntax_error_line(error: yaml.MarkedYAMLError) -> int | None:
    """Return the line of the mistake: of the opening bracket or quote if it is not closed."""
    marks = [error.problem_mark, error.context_mark]
    if any(end in (error.problem or "") for end in (_END_IN_BRACKETS, _END_IN_QUOTES)):
        marks.reverse()
    return next((mark.line + 1 for mark in marks if mark is not None), None)


def _syntax_problem(error: yaml.MarkedYAMLError, text: str) -> str:
    problem = error.problem or error.context or "cannot be parsed"
    if _END_IN_BRACKETS in problem:
        return "not valid YAML: a [ or { is not closed"
    if _END_IN_QUOTES in problem:
        return "not valid YAML: a quote is not closed"
    column = f" (column {error.problem_mark.column + 1})" if error.problem_mark else ""
    hint = ""
    if "\\t" in problem:
        hint = "; indent with spaces, not tabs"
    elif "got '['" in problem:
        hint = '; quote values that contain brackets, such as "bucket[16](id)"'
    elif "got '{'" in problem or "flow mapping" in (error.context or ""):
        hint = '; inside { } and [ ], quote "${NAME}"'
    elif "mapping values are not allowed" in problem and error.problem_mark:
        hint = _colon_hint(text, error.problem_mark)
    return f"not valid YAML: {problem}{column}{hint}"


def _colon_hint(text: str, second_colon: yaml.Mark) -> str:
    """Return what may be wrong before a colon at which YAML expects no key."""
    line_start = text.splitlines()[second_colon.line][: second_colon.column]
    if ": " in line_start:
        return '; quote a value that contains ": "'
    if second_colon.line == 0:
        return ""
    return f'; a ":" may be missing at the end of line {second_colon.line}, or the indentation is wrong'


def _reader_problem(error: yaml.YAMLError) -> str:
    return (
        "a character that YAML does not allow"
        if isinstance(error, yaml.reader.ReaderError)
        else "cannot be parsed"
    )


class _NodeReader:
    """Converts YAML nodes into values, and collects their lines and problems."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._count = 0
        self._open_nodes: list[yaml.Node] = []

    def read(self, node: yaml.Node, path: KeyPath) -> object:
        self._document.lines.setdefault(path, node.start_mark.line + 1)
        self._count += 1
        if any(node is outer for outer in self._open_nodes):
            self._document.add_problem(path, "an alias that contains itself")
            return None
        if len(self._open_nodes) > _MAX_DEPTH:
            self._document.add_problem(path[:3], _TOO_DEEP)
            return None
        if self._count > _MAX_VALUES:
            if self._count == _MAX_VALUES + 1:
                self._document.add_problem(path, f"more than {_MAX_VALUES} values: check the aliases")
            return None
        self._open_nodes.append(node)
        try:
            return self._read_value(node, path)
        finally:
            self._open_nodes.pop()

    def _read_value(self, node: yaml.Node, path: KeyPath) -> object:
        if node.tag not in (_NULL, _MERGE, *_TYPED, *_TEXT, *_CONTAINERS):
            self._document.add_problem(path, f"the tag {node.tag!r} is not allowed")
            return None
        match node:
            case yaml.ScalarNode():
                return self._read_scalar(node, path)
            case yaml.SequenceNode():
                return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
            case yaml.MappingNode():
                return self._read_mapping(node, path)
            case _:
                raise AssertionError(f"unexpected YAML node {node!r}")

    def _read_scalar(self, node: yaml.ScalarNode, path: KeyPath) -> object:
        if node.tag == _NULL:
            return None
        text = str(node.value)
        if node.tag not in _TYPED:
            return text
        scalar = PlainScalar(text)
        try:
            scalar.value = yaml.constructor.SafeConstructor().construct_object(node)
        except (ValueError, KeyError):
            self._document.add_problem(path, f"{text!r} does not match its tag")
        return scalar

    def _read_mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, object]:
        first_lines: dict[str, int] = {}
        result: dict[str, object] = {}
        merge_sources: list[yaml.Node] = []
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == _MERGE:
                merge_sources.append(value_node)
            elif not isinstance(key_node, yaml.ScalarNode):
                self._document.add_problem(path, "a key must be plain text", line)
            elif (key := str(key_node.value)) in first_lines:
                self._document.add_problem(
                    (*path, key), f"given twice; first in line {first_lines[key]}", line
                )
            else:
                first_lines[key] = line
                self._document.lines.setdefault((*path, key), line)
                result[key] = self.read(value_node, (*path, key))
        for source in merge_sources:
            for key, value in self._read_merge_source(source, path):
                result.setdefault(key, value)
        return result

    def _read_merge_source(self, node: yaml.Node, path: KeyPath) -> Iterator[tuple[str, object]]:
        """Yield the keys of `<<: *defaults`, or of a list of them. Keys of the mapping win, then earlier sources."""
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            value = self.read(source, path)
            if isinstance(value, dict):
                yield from value.items()
            else:
                self._document.add_problem(path, "<< needs a mapping", node.start_mark.line + 1)
