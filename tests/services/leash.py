"""Runs a server and ends it, with all its children, as soon as whoever started it is gone.

`python leash.py COMMAND…`: standard input is the leash. It closes when the tests end, however they end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

GRACE_SECONDS = 5.0


def main() -> int:
    """The server's exit code."""
    server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_hold, args=(server,), daemon=True).start()
    code = server.wait()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(server.pid, signal.SIGKILL)  # children that outlived it
    return code


def _hold(server: subprocess.Popen[bytes]) -> None:
    sys.stdin.buffer.read()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
