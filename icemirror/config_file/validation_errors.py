"""Pydantic's errors in terms of the configuration file: line, key, expected value, the most similar key."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from icemirror.config_file.document import Document, KeyPath
from icemirror.config_file.environment import interpolated_values
from icemirror.config_file.problems import Problem
from icemirror.config_file.schema import SchemaReader, json_schema
from icemirror.settings.masking import is_secret_name
from icemirror.similar_names import closest_name, suggest
from icemirror.telemetry.redaction import MIN_SECRET_CHARACTERS

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


def to_problems(error: ValidationError, document: Document) -> Iterator[Problem]:
    """Yield one problem per error, with its line."""
    schema = SchemaReader(json_schema())
    for details in error.errors(include_url=False):
        path, _ = schema.follow(details["loc"])
        message = _hide_environment(_message(details, schema), document.value, path)
        if details["type"].startswith("union_tag"):
            path = (*path, "type")
        yield Problem(document.find_line(path), path, message)


def correct_unknown_keys(error: ValidationError, document: Document) -> Iterator[Problem]:
    """Yield one problem per unknown key, and correct the document to the key that was probably meant."""
    schema = SchemaReader(json_schema())
    for details in error.errors(include_url=False):
        if details["type"] == "extra_forbidden":
            path, _ = schema.follow(details["loc"])
            closest, hint = _suggest_key(details["loc"], schema)
            yield Problem(document.find_line(path), path, f"unknown key{hint}")
            document.rename_or_remove(path, closest)


def _message(details: ErrorDetails, schema: SchemaReader) -> str:
    error_type, location, context = details["type"], details["loc"], details.get("ctx", {})
    path, node = schema.follow(location)
    found_clause = _found_clause(details["input"], path)
    match error_type:
        case "literal_error":
            options = [str(option) for option in node.get("enum", [node.get("const")])]
            return f"expected {_join_options(options)}{found_clause}{suggest(str(details['input']), options)}"
        case "union_tag_invalid":
            options = list(schema.variants(node))
            tag = context["tag"]
            return f"expected {_join_options(options)}; found {tag!r}{suggest(tag, options)}"
        case "value_error":
            return str(context["error"])
        case "greater_than":
            return f"must be more than {context['gt']:g}{found_clause}"
        case "greater_than_equal":
            return f"must be at least {context['ge']:g}{found_clause}"
        case "less_than":
            return f"must be less than {context['lt']:g}{found_clause}"
        case "less_than_equal":
            return f"must be at most {context['le']:g}{found_clause}"
        case "string_pattern_mismatch" if path[-1:] == ("group",):
            return f"expected lower-case letters, digits and dashes, 31 at most{found_clause}"
        case "missing" if path[-1] in _MISSING:
            return f"missing: {_MISSING[path[-1]]}"
        case "missing" if "description" in node:
            return f"missing: expected {_as_clause(node['description'])}"
        case "list_type" | "tuple_type" if isinstance(details["input"], str):
            return f"{_EXPECTED[error_type]}: [{details['input']}]"
        case "list_type" | "tuple_type" if isinstance(details["input"], dict):
            return f'{_EXPECTED[error_type]}: start each entry with "- "'
        case _ if error_type in _EXPECTED:
            return f"{_EXPECTED[error_type]}{found_clause if error_type.endswith('parsing') else ''}"
        case _:
            return details["msg"]


def _as_clause(sentence: str) -> str:
    """Return a description as a part of a message: without its full stop, lower case unless it starts with a name."""
    text = sentence.removesuffix(".")
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _found_clause(value: object, path: KeyPath) -> str:
    """Return `; found 'x'` for a plain value that is not a secret."""
    if not isinstance(value, str | int | float) or any(is_secret_name(str(step)) for step in path):
        return ""
    return f"; found {str(value)!r}"


def _hide_environment(message: str, root: object, path: KeyPath) -> str:
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
    for interpolated in interpolated_values(value):
        message = message.replace(repr(str(interpolated)), repr(interpolated.original))
        if len(interpolated) >= MIN_SECRET_CHARACTERS:
            message = message.replace(str(interpolated), interpolated.original)
    return message


def _join_options(options: list[str]) -> str:
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"


def _suggest_key(location: KeyPath, schema: SchemaReader) -> tuple[str | None, str]:
    """Return the most similar key of this section, if any, and a hint for the message."""
    key = str(location[-1])
    _, parent = schema.follow(location[:-1])
    siblings = list(parent.get("properties", {}))
    if closest := closest_name(key, siblings, cutoff=0.85):
        return closest, suggest(key, siblings)
    other_section = next((entry.path[:-1] for entry in schema.entries() if entry.path[-1] == key), None)
    if other_section is not None:
        outer = re.sub(r"\(.*?\)|\[\]", "", ".".join(other_section))
        return None, f"; it belongs under {outer}" if outer else "; it belongs at the top level"
    if closest := closest_name(key, siblings):
        return closest, suggest(key, siblings)
    return None, f"; known keys: {', '.join(siblings)}"
