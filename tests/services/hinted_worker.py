"""A worker on a hinted lake, as the launcher starts it: `hinted_worker.py --request JSON`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from icemirror.local_process import identify
from icemirror.run_request import RunRequest
from icemirror.settings import load_settings
from icemirror.state.events import Holder
from icemirror.state.rows import SlotId
from icemirror.state.sqlite import SqliteStore
from icemirror.state.worker import Limits
from spark_job.worker import Surroundings, run_worker
from tests.services.hinted_lake import LINGER_SECONDS, POLICY, HintedLake

request = RunRequest.model_validate_json(sys.argv[2])
folder = Path(request.config).parent
lake = HintedLake(folder, len(load_settings(Path(request.config), {}).tables))
pid = os.getpid()
lake.note("workers", f"began {pid}")
with SqliteStore(folder / "state.db") as store:
    run_worker(
        Holder(SlotId(request.group, request.slot), request.gen, identify(pid) or "unknown"),
        Surroundings(
            store=store,
            policy=POLICY,
            limits=Limits(linger_seconds=LINGER_SECONDS, turn_slices=5),
            advance=lake.advance,
            tables=lambda: frozenset(lake.names),
            stopping=lambda: False,
        ),
    )
lake.note("workers", f"ended {pid}")
