"""Set-up: which Python is taken, when there is nothing to do, what it falls back on, what it says when it stops."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.house.tracked import ROOT


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A project with nothing in it but what set-up looks at, and a PATH with next to nothing on it."""
    folder = tmp_path / "a clone"
    (folder / "requirements").mkdir(parents=True)
    shutil.copytree(ROOT / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "requirements/build.txt", "requirements/dev.txt"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "bin").mkdir()
    for program in ("sh", "dirname", "sleep"):
        found = shutil.which(program)
        assert found
        (folder / "bin" / program).symlink_to(found)
    return folder


def put(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def put_python(path: Path, *, fits: bool) -> None:
    """A fake Python that fits or does not, and says who it is when it is given the rest of the work."""
    put(path, f'[ "$2" = -c ] && exit {0 if fits else 1}\necho "{path.name} runs $*"')


def run_setup(clone: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [str(clone / "scripts" / "setup.sh")]
    environ = {"PATH": str(clone / "bin")} | environ
    return subprocess.run(command, env=environ, cwd="/", capture_output=True, text=True, check=False)


def test_the_newest_known_python_that_fits_is_taken(clone: Path) -> None:
    put_python(clone / "bin" / "python3", fits=True)
    put_python(clone / "bin" / "python3.12", fits=True)
    put_python(clone / "bin" / "python3.13", fits=False)
    done = run_setup(clone)
    assert done.stdout == "python3.12 runs -I scripts/setup.py\n"
    assert done.returncode == 0


def test_python_of_the_environment_is_honoured_and_not_replaced_by_another(clone: Path) -> None:
    put_python(clone / "bin" / "python3", fits=True)
    put_python(clone / "mine", fits=True)
    assert run_setup(clone, PYTHON=str(clone / "mine")).stdout.startswith("mine runs")
    put_python(clone / "mine", fits=False)
    done = run_setup(clone, PYTHON=str(clone / "mine"))
    assert done.returncode == 2
    assert "is not a Python 3.11 or newer" in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_a_fitting_python_one_line_says_what_to_install(clone: Path) -> None:
    put_python(clone / "bin" / "python3", fits=False)
    done = run_setup(clone)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "apt-get install python3 python3-venv" in done.stderr
    assert "brew install python@3.12" in done.stderr


def test_what_is_ready_is_left_alone(clone: Path) -> None:
    put_python(clone / "bin" / "python3", fits=True)
    put(clone / ".venv" / "bin" / "python", "exit 0")
    done = run_setup(clone)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    put(clone / ".venv" / "bin" / "python", "exit 1")
    assert "python3 runs" in run_setup(clone).stdout


@pytest.fixture
def setup(clone: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """setup.py of the clone, with the real Python and next to nothing on PATH."""
    monkeypatch.setenv("PATH", str(clone / "bin"))
    spec = importlib.util.spec_from_file_location("clone_setup", clone / "scripts" / "setup.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stamp(setup: ModuleType, clone: Path) -> None:
    put(clone / ".venv" / "bin" / "icemirror", "true")
    put(clone / "java" / "bin" / "java", "true")
    setup.write_stamp({"packages": setup.fingerprint(), "java": str(clone / "java")})


def is_ready(setup: ModuleType) -> bool:
    found = setup.read_stamp()
    return bool(setup.packages_ready(found) and setup.java_ready(found))


def test_ready_until_lock_project_folder_command_or_java_change(setup: ModuleType, clone: Path) -> None:
    assert not is_ready(setup)
    stamp(setup, clone)
    assert is_ready(setup)

    lock = clone / "requirements" / "dev.txt"
    before = lock.read_text(encoding="utf-8")
    lock.write_text(before + "\n", encoding="utf-8")
    assert not is_ready(setup)
    lock.write_text(before, encoding="utf-8")
    assert is_ready(setup)

    shutil.rmtree(clone / "java")
    assert not is_ready(setup)
    stamp(setup, clone)
    (clone / ".venv" / "bin" / "icemirror").unlink()
    assert not is_ready(setup)

    stamp(setup, clone)
    setup.STAMP.write_text('{"packa', encoding="utf-8")  # cut off by an interruption
    assert not is_ready(setup)


def test_a_style_setting_does_not_ask_for_a_new_set_up_but_a_dependency_does(
    setup: ModuleType, clone: Path
) -> None:
    project = clone / "pyproject.toml"
    before = setup.fingerprint()
    text = project.read_text(encoding="utf-8")
    project.write_text(text.replace("line-length = 110", "line-length = 99"), encoding="utf-8")
    assert setup.fingerprint() == before
    project.write_text(text.replace('"click>=8.1"', '"click>=8.2"'), encoding="utf-8")
    assert setup.fingerprint() != before


def test_a_moved_clone_is_noticed(setup: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stamp(setup, clone)
    monkeypatch.setattr(setup, "ROOT", clone)
    here = setup.fingerprint()
    moved = clone.rename(clone.parent / "moved")
    monkeypatch.setattr(setup, "ROOT", moved)
    monkeypatch.setattr(setup, "VENV", moved / ".venv")
    monkeypatch.setattr(setup, "PYTHON", str(moved / ".venv" / "bin" / "python"))
    assert setup.fingerprint() != here
    put(moved / ".venv" / "bin" / "python", "exit 0")
    (moved / ".venv" / "bin" / "pip").write_text(f"#!{clone}/.venv/bin/python\n", encoding="utf-8")
    assert not setup.venv_is_sound()
    (moved / ".venv" / "bin" / "pip").write_text(f"#!{moved}/.venv/bin/python\n", encoding="utf-8")
    assert setup.venv_is_sound()


def test_an_installation_that_was_cut_off_starts_from_an_empty_environment(
    setup: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    cut_off = [True]

    def make_venv() -> None:
        made.append(1)
        shutil.rmtree(setup.VENV, ignore_errors=True)
        put(setup.VENV / "bin" / "pip", f"# {setup.VENV}")

    def run_long(command: list[str], otherwise: str) -> None:
        if cut_off.pop() if cut_off else False:
            raise KeyboardInterrupt

    monkeypatch.setattr(setup, "make_venv", make_venv)
    monkeypatch.setattr(setup, "run_long", run_long)
    monkeypatch.setattr(setup, "succeeds", lambda *command: True)
    with pytest.raises(KeyboardInterrupt):
        setup.install_packages()
    setup.install_packages()
    assert len(made) == 2
    setup.install_packages()  # a changed lock: what is whole is kept
    assert len(made) == 2


@pytest.fixture
def debian_python(clone: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python without ensurepip, as Debian has it without python3-venv."""
    broken = clone / "debian-python"
    put(broken, f'case "$*" in *"-m venv"*|*"-m virtualenv"*) exit 1;; esac\nexec {sys.executable} "$@"')
    monkeypatch.setattr(sys, "executable", str(broken))
    return broken


def test_without_venv_virtualenv_makes_the_environment(
    setup: ModuleType, debian_python: Path, clone: Path
) -> None:
    program = Path(sys.prefix) / "bin" / "virtualenv"
    real = Path(sys.prefix) / "bin" / "python"
    # The real virtualenv, told to start from the real Python whatever Python is asked for.
    put(clone / "bin" / "virtualenv", f'shift 2\nexec "{real}" "{program}" --quiet --no-periodic-update "$@"')
    setup.make_venv()
    assert setup.venv_is_sound()


def test_without_any_way_and_without_rights_one_line_says_what_to_install(
    setup: ModuleType, debian_python: Path, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(setup.Stop, match="install virtualenv"):
        setup.make_venv()
    put(clone / "bin" / "apt-get", "exit 1")
    with pytest.raises(setup.Stop, match=f"sudo apt-get install {version}, then run this again") as stop:
        setup.make_venv()
    assert "\n" not in str(stop.value)
    assert not setup.VENV.exists()


@pytest.mark.parametrize("user", ["root", "sudoer", "nobody"])
def test_system_packages_are_installed_only_where_no_password_is_asked(
    setup: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    said = clone / "said"
    monkeypatch.setattr(os, "geteuid", lambda: 0 if user == "root" else 1000)
    put(clone / "bin" / "apt-get", f'echo "$*" >> "{said}"\ncase "$*" in *17*) exit 100;; esac')
    (clone / "bin" / "env").symlink_to(shutil.which("env", path=os.defpath) or "/usr/bin/env")
    if user == "sudoer":
        put(clone / "bin" / "sudo", '[ "$1" = -n ] || exit 1\nshift\nexec "$@"')
        (clone / "bin" / "true").symlink_to(shutil.which("true", path=os.defpath) or "/bin/true")
    done = setup.installed_by_apt(*setup.JAVA_PACKAGES)
    if user == "nobody":
        assert not done
        assert not said.exists()
    else:
        assert done
        assert said.read_text().splitlines() == [
            "-qq install -y --no-install-recommends openjdk-17-jre-headless",
            "-qq install -y --no-install-recommends openjdk-21-jre-headless",
        ]


def test_no_java_stops_set_up_with_the_line_that_the_job_would_say(
    setup: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(
        setup, "find_java", lambda: ("", "Spark needs Java 17 or 21, found no Java: install …")
    )
    with pytest.raises(setup.Stop, match="Spark needs Java 17 or 21"):
        setup.see_to_java()


def test_settings_that_lead_pip_elsewhere_are_kept_from_it(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PIP_USER", "PIP_TARGET", "PYTHONPATH"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PIP_INDEX_URL", "kept")
    environ = setup.clean_environment()
    assert not {"PIP_USER", "PIP_TARGET", "PYTHONPATH"} & set(environ)
    assert environ["PIP_INDEX_URL"] == "kept"
    assert environ["PYTHONNOUSERSITE"] == "1"


def test_a_failing_step_shows_what_it_said_and_one_line_to_go_on(
    setup: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(setup.Stop, match="run this again"):
        setup.run_long(["sh", "-c", "echo the reason; exit 1"], "run this again")
    assert "| the reason" in capsys.readouterr().err


def test_a_long_step_gives_signs_of_life(
    setup: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "HEARTBEAT_SECONDS", 0.2)
    setup.run_long(["sh", "-c", "echo Downloading something; sleep 1"], "")
    assert "Downloading something" in capsys.readouterr().err


def test_the_second_of_two_set_ups_waits_for_the_first(clone: Path) -> None:
    order = clone / "order"
    script = """
import importlib.util, sys, time
spec = importlib.util.spec_from_file_location("s", sys.argv[1]); s = importlib.util.module_from_spec(spec)
spec.loader.exec_module(s)
with s.alone_in_this_folder():
    for word in ("in", "out"):
        with open(sys.argv[2], "a") as f: f.write(word + "\\n")
        time.sleep(0.5)
"""
    command = [sys.executable, "-c", script, str(clone / "scripts" / "setup.py"), str(order)]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = "".join(process.communicate(timeout=30)[1] for process in both)
    assert order.read_text().split() == ["in", "out", "in", "out"]
    assert "another set-up is at work" in said


def test_a_killed_set_up_leaves_no_lock_behind(clone: Path) -> None:
    script = """
import importlib.util, sys, time
spec = importlib.util.spec_from_file_location("s", sys.argv[1]); s = importlib.util.module_from_spec(spec)
spec.loader.exec_module(s)
with s.alone_in_this_folder():
    print("in", flush=True)
    time.sleep(float(sys.argv[2]))
"""
    path = str(clone / "scripts" / "setup.py")
    first = subprocess.Popen([sys.executable, "-c", script, path, "60"], stdout=subprocess.PIPE, text=True)
    assert first.stdout
    assert first.stdout.readline() == "in\n"
    first.kill()
    first.communicate()
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", script, path, "0"], check=True, timeout=30, capture_output=True)
    assert time.monotonic() - started < 20
