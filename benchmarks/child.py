"""The process of one system: `python -m benchmarks.child NAME`, requests on stdin, responses on stdout."""

from __future__ import annotations

import os
import sys
import traceback
from typing import TextIO

from benchmarks.messages import REQUEST, Answer, Apply, Failed, Inspect, Load, Ready, Request, Scan, Start
from benchmarks.systems.catalogue import SYSTEMS
from benchmarks.systems.system import System, TableReader


def main() -> None:
    """Serve requests until stdin ends."""
    responses = _private_stdout()
    system: System | None = None
    for line in sys.stdin:
        try:
            request = REQUEST.validate_json(line)
            if isinstance(request, Start):
                system = SYSTEMS[sys.argv[1]].open(request)
                response: Answer = Ready(versions=system.versions)
            else:
                response = _serve(system, request)
        except Exception as error:  # reported to the parent, which ends the run
            traceback.print_exc()
            response = Failed(message=f"{type(error).__name__}: {error}")
        responses.write(response.model_dump_json() + "\n")
        responses.flush()
    if system is not None:
        system.close()


def _serve(system: System | None, request: Request) -> Answer:
    if system is None:
        raise RuntimeError("the first request must be `start`")
    match request:
        case Load():
            return system.load(request)
        case Apply(table=table, batch=batch):
            return system.apply(table, batch)
        case Inspect(table=table):
            return system.inspect(table)
        case Scan(metadata=metadata):
            if not isinstance(system, TableReader):
                raise TypeError(f"{sys.argv[1]} does not read tables of other systems")
            return system.scan(metadata)
        case Start():
            raise RuntimeError("already started")


def _private_stdout() -> TextIO:
    """Send responses to the original stdout, and all other output of Spark and Java to stderr."""
    private = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(private, "w", encoding="utf-8")


if __name__ == "__main__":
    main()
