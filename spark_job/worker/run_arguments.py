"""The arguments of a launched job, on every platform."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from icemirror.config_file.load import load_settings, parse_settings
from icemirror.config_file.packing import unpack_arguments
from icemirror.errors import BadConfig
from icemirror.processes.process_identity import identify
from icemirror.protocol.events import WorkerId
from icemirror.protocol.rows import SlotId
from icemirror.protocol.run_request import RunRequest
from icemirror.settings import Settings

_EMR_RUN_ID = "SERVERLESS_EMR_JOB_ID"  # set by EMR Serverless


@dataclass(frozen=True)
class RunArguments:
    """The run request, the packed configuration (empty: read the file), the run id, and the time limit."""

    request: RunRequest
    config: tuple[str, ...]
    run_id: str
    stop_after_seconds: float = math.inf

    @property
    def worker_id(self) -> WorkerId:
        """The id of this worker in the row of its slot."""
        return WorkerId(SlotId(self.request.group, self.request.slot), self.request.gen, self.run_id)

    def settings(self, environ: Mapping[str, str]) -> Settings:
        """Return the configuration, with the secrets of this job's environment."""
        path = Path(self.request.config)
        return (
            parse_settings(unpack_arguments(self.config), path, environ)
            if self.config
            else load_settings(path, environ)
        )


def read_arguments(arguments: Sequence[str], environ: Mapping[str, str]) -> RunArguments:
    """Return the parsed arguments.

    The trigger polls the platform for this run id: the platform's own id if it provides one, else the name that
    the run was launched under, else this process.
    """
    parser = argparse.ArgumentParser(prog="python -m spark_job", description="A worker of icemirror.")
    parser.add_argument("--request", required=True, help="the run request, as JSON")
    parser.add_argument("--run-id", help="the run's name on its platform; default: this process")
    parser.add_argument("--config", nargs="+", default=(), help="the configuration, packed; default: a file")
    parser.add_argument(
        "--stop-after", type=float, default=math.inf, help="seconds; default: as long as there is work"
    )
    options = parser.parse_args(arguments)
    request = _read_request(options.request)
    run_id = _find_run_id(options.run_id, request, environ)
    return RunArguments(request, tuple(options.config), run_id, options.stop_after)


def _find_run_id(launch_name: str | None, request: RunRequest, environ: Mapping[str, str]) -> str:
    if not launch_name:
        return identify(os.getpid()) or request.token
    return environ.get(_EMR_RUN_ID) or launch_name


def _read_request(text: str) -> RunRequest:
    try:
        return RunRequest.model_validate_json(text)
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, problem["loc"])) or "JSON" for problem in error.errors())
        raise BadConfig(
            f"the run request is of another release ({fields}): trigger and job differ. "
            "Install the same release for both"
        ) from None
