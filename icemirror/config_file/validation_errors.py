"""Pydantic's errors in terms of the configuration file: line, key, expected value, the most similar key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from icemirror.config_file.document import Document
from icemirror.config_file.environment import written_values
from icemirror.config_file.problems import Problem
from icemirror.config_file.schema import Path, SchemaWalk, json_schema
from icemirror.settings.masking import is_secret_name

_EXPECTED = {
    "bool_parsing": "expected true or false",
    "bool_type": "expected true or false",
    "dict_type": "expected a mapping of keys to values",
    "float_parsing": "expected a number",
    "float_type": "expected a number",
    "int_from_float": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_type": "expected a whole number",
    "list_type": "expected a list",
    "model_attributes_type": "expected a mapping of keys to values",
    "model_type": "expected a mapping of keys to values",
    "path_type": "expected a path",
    "string_type": "expected text",
    "tuple_type": "expected a list",
    "union_tag_not_found": "missing",
    "missing": "missing",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
}

_MISSING: dict[str | int, str] = {
    "iceberg": "add a section with `catalog`",
    "bootstrap_servers": "list the brokers, such as broker-1:9092",
}

# Replacing shorter values would garble messages and protect nothing.
_SHORTEST_SECRET = 4


def explain(error: ValidationError, document: Document) -> Iterator[Problem]:
    """Yield one problem per error, with its line."""
    walk = SchemaWalk(json_schema())
    for details in error.errors(include_url=False):
        path, _ = walk.follow(details["loc"])
        message = _hide_environment(_message(details, walk), document.value, path)
        if details["type"].startswith("union_tag"):
            path = (*path, "type")
        yield Problem(document.line(path), path, message)


def correct_unknown_keys(error: ValidationError, document: Document) -> Iterator[Problem]:
    """Yield one problem per unknown key, and correct the document to the key that was probably meant."""
    walk = SchemaWalk(json_schema())
    for details in error.errors(include_url=False):
        if details["type"] == "extra_forbidden":
            path, _ = walk.follow(details["loc"])
            near, hint = _nearest_key(details["loc"], walk)
            yield Problem(document.line(path), path, f"unknown key{hint}")
            document.correct(path, near)


def _message(details: ErrorDetails, walk: SchemaWalk) -> str:
    kind, location, context = details["type"], details["loc"], details.get("ctx", {})
    path, node = walk.follow(location)
    found = _found(details["input"], path)
    match kind:
        case "literal_error":
            options = [str(option) for option in node.get("enum", [node.get("const")])]
            return f"expected {_one_of(options)}{found}{_hint(_nearest(str(details['input']), options))}"
        case "union_tag_invalid":
            options = list(walk.variants(node))
            tag = context["tag"]
            return f"expected {_one_of(options)}; found {tag!r}{_hint(_nearest(tag, options))}"
        case "value_error":
            return str(context["error"])
        case "greater_than":
            return f"must be more than {context['gt']:g}{found}"
        case "greater_than_equal":
            return f"must be at least {context['ge']:g}{found}"
        case "less_than":
            return f"must be less than {context['lt']:g}{found}"
        case "less_than_equal":
            return f"must be at most {context['le']:g}{found}"
        case "string_pattern_mismatch" if path[-1:] == ("group",):
            return f"expected lower-case letters, digits and dashes, 31 at most{found}"
        case "missing" if path[-1] in _MISSING:
            return f"missing: {_MISSING[path[-1]]}"
        case "missing" if "description" in node:
            return f"missing: expected {_as_clause(node['description'])}"
        case "list_type" | "tuple_type" if isinstance(details["input"], str):
            return f"{_EXPECTED[kind]}: [{details['input']}]"
        case _ if kind in _EXPECTED:
            return f"{_EXPECTED[kind]}{found if kind.endswith('parsing') else ''}"
        case _:
            return details["msg"]


def _as_clause(sentence: str) -> str:
    """Return a description as a part of a message: without its full stop, lower case unless it starts with a name."""
    text = sentence.removesuffix(".")
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _found(value: object, path: Path) -> str:
    """Return `; found 'x'` for a plain value that is not a secret."""
    if not isinstance(value, str | int | float) or any(is_secret_name(str(step)) for step in path):
        return ""
    return f"; found {str(value)!r}"


def _hide_environment(message: str, root: object, path: Path) -> str:
    """Return the message with `${NAME}` in place of the values of environment variables."""
    value = root
    for step in path:
        match value:
            case dict() if step in value:
                value = value[step]
            case list() if isinstance(step, int) and step < len(value):
                value = value[step]
            case _:
                break
    for interpolated in written_values(value):
        message = message.replace(repr(str(interpolated)), repr(interpolated.written))
        if len(interpolated) >= _SHORTEST_SECRET:
            message = message.replace(str(interpolated), interpolated.written)
    return message


def _one_of(options: list[str]) -> str:
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"


def _nearest(text: str, options: list[str], cutoff: float = 0.6) -> str | None:
    by_lower = {option.lower(): option for option in options}
    close = difflib.get_close_matches(text.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[close[0]] if close else None


def _hint(near: str | None) -> str:
    return f"; did you mean {near}?" if near else ""


def _nearest_key(location: tuple[str | int, ...], walk: SchemaWalk) -> tuple[str | None, str]:
    """Return the most similar key of this section, if any, and a hint for the message."""
    key = str(location[-1])
    _, parent = walk.follow(location[:-1])
    siblings = list(parent.get("properties", {}))
    if near := _nearest(key, siblings, cutoff=0.85):
        return near, _hint(near)
    elsewhere = next((entry.path[:-1] for entry in walk.entries() if entry.path[-1] == key), None)
    if elsewhere is not None:
        outer = re.sub(r"\(.*?\)|\[\]", "", ".".join(elsewhere))
        return None, f"; it belongs under {outer}" if outer else "; it belongs at the top level"
    if near := _nearest(key, siblings):
        return near, _hint(near)
    return None, f"; known keys: {', '.join(siblings)}"
