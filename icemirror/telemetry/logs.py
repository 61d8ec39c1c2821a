"""Structured logs on stderr: one JSON object per line, or short lines for people.

    log = get_log(__name__)
    with bind(table="shop.orders", run="r-1"):
        log.info("slice committed", events=2000)

Every line has `table`, `run` and `batch`, null where none is bound. What is bound follows the code
(a context variable), not the thread: a new thread starts with nothing bound. Never log row or key values.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import MappingProxyType
from typing import Literal

from icemirror.telemetry.log_format import JsonFormatter, TextFormatter

LogFormat = Literal["json", "text", "console"]

# They say at INFO what concerns nobody but themselves.
NOISY = (
    "py4j",
    "pyiceberg",
    "urllib3",
    "botocore",
    "boto3",
    "s3transfer",
    "aiokafka",
    "kafka",
    "httpx2",  # lightkube's
    "httpcore2",
    "asyncio",
)

_bound: ContextVar[Mapping[str, str]] = ContextVar("bound", default=MappingProxyType({}))


class _Stderr(logging.Handler):
    """Writes to what is stderr now, so that a redirection later on is followed."""

    def emit(self, record: logging.LogRecord) -> None:
        """One write for each record, so that lines of several processes do not mix."""
        line = self.format(record) + "\n"
        with suppress(
            AttributeError, OSError, ValueError
        ):  # closed, or nobody reads it any more: no reason to fail
            sys.stderr.write(line)
            sys.stderr.flush()


class Log:
    """Writes events: a short text that is the same every time, and fields that differ."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, /, **fields: object) -> None:
        """For whoever looks for a bug."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        """Something was done."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """It goes on, but a person should know."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        """It failed, and there is no exception."""
        self._write(logging.ERROR, event, fields)

    def failure(self, event: str, error: BaseException, /, **fields: object) -> None:
        """It failed with this: its kind, message and traceback are logged along."""
        self._write(logging.ERROR, event, fields, error)

    def _write(
        self, level: int, event: str, fields: Mapping[str, object], error: BaseException | None = None
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s", event, extra={"fields": fields}, exc_info=error)


def get_log(name: str) -> Log:
    """The log of a module: `log = get_log(__name__)`."""
    return Log(name)


@contextmanager
def bind(*, table: str | None = None, run: str | None = None, batch: str | None = None) -> Iterator[None]:
    """Put these on every line that is logged inside; inner ones win over outer ones."""
    given = {"table": table, "run": run, "batch": batch}
    token = _bound.set(
        {**_bound.get(), **{name: value for name, value in given.items() if value is not None}}
    )
    try:
        yield
    finally:
        _bound.reset(token)


def bound() -> Mapping[str, str]:
    """What is bound here, to pass on to another thread or into an error report."""
    return _bound.get()


def configure(
    *,
    log_format: LogFormat = "json",
    log_level: str = "info",
    project_ref: str,
    environment: str,
    debug: bool = False,
) -> None:
    """Send all logs of the process, our own and those of libraries, to stderr in this form.

    `debug`, or the level of that name: JSON has a traceback of named errors, too.
    """
    labels = {"project_ref": project_ref, "environment": environment}
    handler = _Stderr()
    handler.setFormatter(
        JsonFormatter(labels, bound, debug=debug or log_level == "debug")
        if log_format == "json"
        else TextFormatter(bound, _colours)
    )
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, _Stderr)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(log_level.upper())
    for name in NOISY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(True)


def _colours() -> bool:
    return sys.stderr is not None and sys.stderr.isatty() and not os.environ.get("NO_COLOR")
