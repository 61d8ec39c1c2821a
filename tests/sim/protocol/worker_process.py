"""A worker on a toy lake, as the launcher starts it: `worker_process.py --request JSON`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from icemirror.protocol.run_request import RunRequest

request = RunRequest.model_validate_json(sys.argv[2])
folder = Path(request.config).parent
crashes_at = os.environ.get("TOY_CRASH_ONCE")
if crashes_at and not (folder / "crashed").exists():
    (folder / "crashed").touch()
    os.environ["ICEMIRROR_CRASH_AT"] = crashes_at

from icemirror.protocol.worker import WorkerLimits  # noqa: E402 (the crash point is read when the module is loaded)
from tests.sim.protocol.lake_worker import work  # noqa: E402
from tests.sim.protocol.toy_lake import LINGER_SECONDS, NAMES, POLICY, ToyLake  # noqa: E402

lake = ToyLake(folder)
old = folder / "old"  # the first worker does not know the first table
names = NAMES[1:] if old.exists() else NAMES
old.unlink(missing_ok=True)
work(
    request,
    policy=POLICY,
    limits=WorkerLimits(linger_seconds=LINGER_SECONDS, max_slices_per_turn=1),
    names=names,
    advance=lake.advance,
    replay=lake.replay,
)
