"""Set-up installs with uv, the user's or its own, and else with pip."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.processes.house.scripts import write_script


def test_uv_installs_the_locks_and_pip_is_the_fallback(
    setup: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def run_with_progress(command: list[str]) -> bool:
        ran.append(" ".join(command))
        return not (command[0] == "/bin/uv" and fails)

    monkeypatch.setattr(setup, "run_with_progress", run_with_progress)
    fails = False
    setup.install_lock("/bin/uv", ["pip"], "requirements/demo.txt", "--no-build-isolation")
    assert len(ran) == 1
    assert "--require-hashes" in ran[0]
    fails = True
    setup.install_lock("/bin/uv", ["pip"], "requirements/demo.txt", "--no-build-isolation")
    assert [command.split()[0] for command in ran] == ["/bin/uv", "/bin/uv", "pip"]
    assert "--require-hashes" in ran[2]
    assert "uv failed, installing with pip" in capsys.readouterr().err


def test_uv_is_skipped_if_only_pip_has_the_index(
    setup: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_script(clone / "bin" / "uv", "true")
    write_script(clone / ".venv" / "bin" / "python", 'echo "$LISTED"')
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    monkeypatch.delenv("UV_INDEX_URL", raising=False)
    monkeypatch.setenv("LISTED", "global.timeout='5'")
    assert setup.find_or_install_uv(["pip"]) == str(clone / "bin" / "uv")
    monkeypatch.setenv("LISTED", "global.index-url='https://packages.invalid/simple'")
    assert setup.find_or_install_uv(["pip"]) is None
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://packages.invalid/simple")
    assert setup.find_or_install_uv(["pip"]) == str(clone / "bin" / "uv")


@pytest.mark.parametrize("installs", [True, False])
def test_uv_is_installed_by_hash_if_the_user_has_none(
    setup: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch, installs: bool
) -> None:
    write_script(clone / ".venv" / "bin" / "python", "true")
    commands: list[list[str]] = []

    def run_with_progress(command: list[str]) -> bool:
        commands.append(command)
        return installs

    monkeypatch.setattr(setup, "run_with_progress", run_with_progress)
    assert setup.find_or_install_uv(["pip", "install"]) == (
        str(clone / ".venv" / "bin" / "uv") if installs else None
    )
    assert commands == [["pip", "install", "--require-hashes", "--only-binary", ":all:", "-r", setup.UV_LOCK]]
