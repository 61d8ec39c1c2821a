"""Run a server and end it, with all its children, as soon as the parent process ends.

`python die_with_parent.py COMMAND…`: standard input is a pipe that closes when the parent ends, even if it is killed.
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
    """Run the server and return its exit code."""
    server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_end_with_parent, args=(server,), daemon=True).start()
    code = server.wait()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(server.pid, signal.SIGKILL)  # remaining children
    return code


def _end_with_parent(server: subprocess.Popen[bytes]) -> None:
    sys.stdin.buffer.read()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
