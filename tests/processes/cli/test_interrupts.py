"""Ctrl-C prints "interrupted" and exits with 130, also while modules are imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from icemirror.cli import main

# Interrupts while a module is imported; "as" is the error that the import makes of it.
SCRIPT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it

class Finder:
    def find_spec(self, name, *_):
        if name == {module!r}:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                raise {becomes}

from icemirror.cli.entry import main
sys.meta_path.insert(0, Finder())
sys.argv = ["icemirror", "config", "schema"]
main()
"""


@pytest.mark.parametrize("becomes", ["", "RuntimeError('a class could not be made')"])
@pytest.mark.parametrize(
    "module", ["icemirror.cli.main", "icemirror.cli.commands.config", "icemirror.config_file.schema"]
)
def test_an_interrupt_during_an_import(module: str, becomes: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(module=module, becomes=becomes)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr.strip().splitlines()[-1:]) == (130, ["interrupted"])
    assert "Traceback" not in done.stderr


def test_what_fails_without_an_interrupt_stays_unexpected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.conclude(RuntimeError("odd"), debug=False) == 1
    assert "unexpected" in capsys.readouterr().err
