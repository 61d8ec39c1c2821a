"""A worker on a toy lake, as the launcher starts it: `worker_process.py --request JSON`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from icemirror.run_request import RunRequest

request = RunRequest.model_validate_json(sys.argv[2])
folder = Path(request.config).parent
crashes_at = os.environ.get("TOY_CRASH_ONCE")
if crashes_at and not (folder / "crashed").exists():
    (folder / "crashed").touch()
    os.environ["ICEMIRROR_CRASH_AT"] = crashes_at

from icemirror.local_process import identify  # noqa: E402 (the crash point is read when the module is loaded)
from icemirror.state.events import Holder  # noqa: E402
from icemirror.state.rows import SlotId  # noqa: E402
from icemirror.state.sqlite import SqliteStore  # noqa: E402
from icemirror.state.worker import Limits  # noqa: E402
from spark_job.worker import Surroundings, run_worker  # noqa: E402
from tests.sim.protocol.toy_lake import LINGER_SECONDS, NAMES, POLICY, ToyLake  # noqa: E402

lake = ToyLake(folder)
pid = os.getpid()
with (folder / "workers").open("a") as workers:
    workers.write(f"began {pid}\n")
with SqliteStore(folder / "state.db") as store:
    run_worker(
        Holder(SlotId(request.group, request.slot), request.gen, identify(pid) or "unknown"),
        Surroundings(
            store=store,
            policy=POLICY,
            limits=Limits(linger_seconds=LINGER_SECONDS, turn_slices=1),
            advance=lake.advance,
            replay=lake.replay,
            tables=lambda: frozenset(NAMES),
            stopping=lambda: False,
        ),
    )
with (folder / "workers").open("a") as workers:
    workers.write(f"ended {pid}\n")
