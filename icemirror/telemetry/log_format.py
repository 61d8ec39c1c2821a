"""The format of a log record: JSON for machines, a short line for terminals. Secrets are masked here."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from icemirror.errors import IcemirrorError
from icemirror.telemetry.redaction import redact, redact_tree

BoundFields = Callable[[], Mapping[str, str]]

_COLOURS = {"debug": "\x1b[2m", "warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}
_RESET = "\x1b[0m"


def _read_fields(record: logging.LogRecord) -> dict[str, object]:
    fields = getattr(record, "fields", None)
    return dict(fields) if isinstance(fields, Mapping) else {}


def _format_message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):  # a library's message that does not match its arguments
        return str(record.msg)


class JsonFormatter(logging.Formatter):
    """Formats every record as one JSON object on one line."""

    def __init__(self, labels: Mapping[str, str], bound: BoundFields, *, debug: bool = False) -> None:
        super().__init__()
        self._labels = labels
        self._bound = bound
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        time_ = datetime.fromtimestamp(record.created, UTC)
        head: dict[str, object] = {
            "ts": time_.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": _format_message(record),
            "project_ref": None,
            "environment": None,
            **self._labels,
            "table": None,
            "run": None,
            "batch": None,
            **self._bound(),
        }
        # A field may set the table; it must not replace the other keys at the start of the line.
        fields = {
            f"{name}_" if name in ("ts", "level", "event", "logger", *self._labels) else name: value
            for name, value in _read_fields(record).items()
        }
        line: dict[str, object] = {**head, **fields, "logger": record.name}
        if record.exc_info and (error := record.exc_info[1]):
            kind = error.kind if isinstance(error, IcemirrorError) else None
            line["error"] = {"kind": kind, "type": type(error).__name__, "message": str(error)}
            if self._debug or kind is None:  # icemirror's errors contain the remedy
                line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(redact_tree(line))


class TextFormatter(logging.Formatter):
    """Formats a record as `12:30:01 info  shop.orders  merged events=2000 seconds=0.7`."""

    def __init__(self, bound: BoundFields, colours: Callable[[], bool]) -> None:
        super().__init__()
        self._bound = bound
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and below it a traceback if there is one."""
        level = record.levelname.lower()
        fields = {**self._bound(), **_read_fields(record)}
        table = fields.pop("table", None)
        time_ = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        texts = [time_, f"{level:<7}", *([str(table)] if table else []), _format_message(record)]
        texts += [f"{name}={_format_value(value)}" for name, value in fields.items() if value is not None]
        line = _printable(redact(" ".join(texts)))
        if record.exc_info and (error := record.exc_info[1]):
            # icemirror's errors contain the remedy; for others the origin matters.
            is_icemirror_error = isinstance(error, IcemirrorError)
            text = f"{error}" if is_icemirror_error else self.formatException(record.exc_info)
            line += "".join(f"\n  {_printable(text_line)}" for text_line in redact(text).splitlines())
        colour = _COLOURS.get(level) if self._colours() else None
        return f"{colour}{line}{_RESET}" if colour else line


def _format_value(value: object) -> str:
    text = str(redact_tree(value))
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text


def _printable(text: str) -> str:
    """Escape control characters: parts of a line may come from outside and must not control the terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
