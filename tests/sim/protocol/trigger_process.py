"""The embedded trigger on a toy lake, until idle: `trigger_process.py FOLDER [WORKER_CRASH_POINT]`."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from icemirror.config_file.load import load_settings
from icemirror.errors import Exit
from icemirror.stores.sqlite import SqliteStore
from icemirror.telemetry.metrics import NoMetrics
from tests.sim.protocol.toy_lake import POLICY, ToyLake
from trigger.dispatch.dispatcher import Dispatcher
from trigger.launchers.local import LocalLauncher
from trigger.service.watch import WatchLoop
from trigger.status.run_reporter import RunReporter
from trigger.tables.registry import TableRegistry

WORKER = (sys.executable, str(Path(__file__).parent / "worker_process.py"))


def watch(lake: ToyLake, worker_crash: str | None) -> Exit:
    """Run until every mirror has reached its head. `worker_crash`: where the first worker dies."""
    environ = {key: value for key, value in os.environ.items() if key != "ICEMIRROR_CRASH_AT"}
    if worker_crash:
        environ["TOY_CRASH_ONCE"] = worker_crash
    settings = load_settings(lake.folder / "icemirror.yaml", {})
    launcher = LocalLauncher(lake.folder, environ, WORKER)
    with SqliteStore(lake.folder / "state.db") as store:
        metrics = NoMetrics()
        dispatcher = Dispatcher(
            registry=TableRegistry(settings),
            store=store,
            policy=POLICY,
            launcher=launcher,
            config=str(settings.source_path),
            metrics=metrics,
        )
        try:
            return WatchLoop(
                dispatcher=dispatcher,
                reporter=RunReporter(store, metrics, ""),
                poll_seconds=0.02,
                until_idle=True,
                stop=threading.Event(),
            ).run()
        finally:
            dispatcher.registry.close()
            for child in launcher._children:
                child.wait()


if __name__ == "__main__":
    sys.exit(watch(ToyLake(Path(sys.argv[1])), sys.argv[2] if len(sys.argv) > 2 else None))
