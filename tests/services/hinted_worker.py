"""A worker on a hinted lake, as the launcher starts it: `hinted_worker.py --request JSON`."""

from __future__ import annotations

import sys
from pathlib import Path

from icemirror.config_file.load import load_settings
from icemirror.protocol.run_request import RunRequest
from icemirror.protocol.worker import WorkerLimits
from tests.services.hinted_lake import LINGER_SECONDS, POLICY, HintedLake
from tests.sim.protocol.lake_worker import work

request = RunRequest.model_validate_json(sys.argv[2])
config = Path(request.config)
lake = HintedLake(config.parent, len(load_settings(config, {}).tables))
work(
    request,
    policy=POLICY,
    limits=WorkerLimits(linger_seconds=LINGER_SECONDS, max_slices_per_turn=5),
    names=lake.names,
    advance=lake.advance,
)
