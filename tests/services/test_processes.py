"""Test servers end with the tests, even if those are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.services.processes import DidNotStart, free_port, listens, running

_SERVER = """
import http.server, sys
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()
"""
_TESTS = """
import sys, time
from pathlib import Path
from tests.services.processes import listens, running
port = int(sys.argv[1])
with running([sys.executable, "-c", sys.argv[2], sys.argv[1]], Path(sys.argv[3]), lambda: listens(port)):
    print("up", flush=True)
    time.sleep(60)
"""
ROOT = Path(__file__).parents[2]


def wait_until_closed(port: int) -> bool:
    deadline = time.monotonic() + 20
    while listens(port):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_server_ends_with_its_block(tmp_path: Path) -> None:
    port = free_port()
    with running([sys.executable, "-c", _SERVER, str(port)], tmp_path / "server.log", lambda: listens(port)):
        assert listens(port)
    assert wait_until_closed(port)


def test_server_ends_when_the_tests_are_killed(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-c", _TESTS, str(port), _SERVER, str(tmp_path / "server.log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as tests:
        assert tests.stdout is not None
        assert tests.stdout.readline() == b"up\n"
        os.kill(tests.pid, signal.SIGKILL)
    assert wait_until_closed(port)


def test_server_that_does_not_start_shows_its_log(tmp_path: Path) -> None:
    broken = [sys.executable, "-c", "import sys; sys.exit('no such disk')"]
    with pytest.raises(DidNotStart, match="no such disk"), running(broken, tmp_path / "s.log", lambda: False):
        pass
