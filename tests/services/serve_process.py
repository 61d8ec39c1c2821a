"""`serve` on a hinted lake, in a process that can be killed: `serve_process.py CONFIG`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from icemirror.config_file.load import load_settings
from icemirror.stores.sqlite import SqliteStore
from icemirror.telemetry.metrics import NoMetrics
from icemirror.telemetry.start_telemetry import start_logs
from tests.services.hinted_lake import POLICY
from trigger.dispatch.dispatcher import Dispatcher
from trigger.dispatch.ingest import EventIngest
from trigger.launchers.local import LocalLauncher
from trigger.listeners import kafka
from trigger.status.run_reporter import RunReporter
from trigger.tables.registry import TableRegistry
from trigger.wiring import build_service

kafka._SESSION_MILLISECONDS = 2000


async def serve(config: Path) -> None:
    """Serve until SIGTERM."""
    settings, stop = load_settings(config, {}), asyncio.Event()
    start_logs(settings)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    worker = (sys.executable, str(Path(__file__).with_name("hinted_worker.py")))
    with SqliteStore(config.parent / "state.db") as store:
        dispatcher = Dispatcher(
            registry=TableRegistry(settings),
            store=store,
            policy=POLICY,
            launcher=LocalLauncher(config.parent, os.environ, worker),
            config=str(config),
            metrics=NoMetrics(),
        )
        try:
            await build_service(
                settings, EventIngest(dispatcher), RunReporter(store, dispatcher.metrics, ""), loop
            ).run(stop)
        finally:
            dispatcher.registry.close()


asyncio.run(serve(Path(sys.argv[1])))
