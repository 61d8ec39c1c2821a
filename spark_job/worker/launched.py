"""What a job was told at its launch, whichever platform launched it."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from icemirror.errors import BadConfig
from icemirror.local_process import identify
from icemirror.run_request import RunRequest
from icemirror.settings import Settings, load_settings
from icemirror.settings.for_job import unpack
from icemirror.settings.load import parse_settings
from icemirror.state.events import Holder
from icemirror.state.rows import SlotId

_EMR_RUN_ID = "SERVERLESS_EMR_JOB_ID"  # set by EMR Serverless


@dataclass(frozen=True)
class Launched:
    """A request, the packed configuration (none: it is in the request's file), who this run is, and when it retires."""

    request: RunRequest
    config: tuple[str, ...]
    run_id: str
    stop_after_seconds: float = math.inf

    @property
    def holder(self) -> Holder:
        """The worker, as it will stand in the slot's row."""
        return Holder(SlotId(self.request.group, self.request.slot), self.request.gen, self.run_id)

    def settings(self, environ: Mapping[str, str]) -> Settings:
        """The configuration, with the secrets of this job's environment."""
        path = Path(self.request.config)
        return (
            parse_settings(unpack(self.config), path, environ)
            if self.config
            else load_settings(path, environ)
        )


def read_arguments(arguments: Sequence[str], environ: Mapping[str, str]) -> Launched:
    """What the arguments and the platform say.

    The trigger asks the platform about the id that the job wrote into its slot: the platform's own where it tells,
    else the name that the run was launched under, else this process.
    """
    parser = argparse.ArgumentParser(prog="python -m spark_job", description="A worker of icemirror.")
    parser.add_argument("--request", required=True, help="the run request, as JSON")
    parser.add_argument("--run-id", help="the run's name on its platform; default: this process")
    parser.add_argument("--config", nargs="+", default=(), help="the configuration, packed; default: a file")
    parser.add_argument(
        "--stop-after", type=float, default=math.inf, help="seconds; default: as long as there is work"
    )
    given = parser.parse_args(arguments)
    request = _read_request(given.request)
    run_id = given.run_id and (environ.get(_EMR_RUN_ID) or given.run_id)
    run_id = run_id or identify(os.getpid()) or request.token
    return Launched(request, tuple(given.config), run_id, given.stop_after)


def _read_request(text: str) -> RunRequest:
    try:
        return RunRequest.model_validate_json(text)
    except ValidationError as error:
        where = ", ".join(".".join(map(str, one["loc"])) or "JSON" for one in error.errors())
        raise BadConfig(
            f"the run request is none that this release understands ({where}): trigger and job are of different "
            "releases. Install the same release for both"
        ) from None
