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
    """A project with only the files that set-up reads, and an almost empty PATH."""
    folder = tmp_path / "a clone"
    (folder / "requirements").mkdir(parents=True)
    shutil.copytree(ROOT / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "requirements/build.txt", "requirements/demo.txt", "requirements/dev.txt"):
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


def test_the_newest_supported_python_is_chosen(clone: Path) -> None:
    put_python(clone / "bin" / "python3", fits=True)
    put_python(clone / "bin" / "python3.12", fits=True)
    put_python(clone / "bin" / "python3.13", fits=False)
    done = run_setup(clone)
    assert done.stdout == "python3.12 runs -I scripts/setup.py dev\n"
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


def test_without_a_supported_python_one_line_says_what_to_install(clone: Path) -> None:
    put_python(clone / "bin" / "python3", fits=False)
    done = run_setup(clone)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "apt-get install python3 python3-venv" in done.stderr
    assert "brew install python@3.12" in done.stderr


def test_a_ready_environment_is_not_touched(clone: Path) -> None:
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


def stamp(setup: ModuleType, clone: Path, kind: str = "dev") -> None:
    put(clone / ".venv" / "bin" / "icemirror", "true")
    put(clone / "java" / "bin" / "java", "true")
    setup.write_stamp({"packages": f"{kind} {setup.fingerprint(kind)}", "java": str(clone / "java")})


def is_ready(setup: ModuleType, kind: str = "dev") -> bool:
    found = setup.read_stamp()
    return bool(setup.packages_ready(found, kind) and setup.java_ready(found))


def test_an_environment_for_tests_runs_the_demo_but_not_the_other_way_round(
    setup: ModuleType, clone: Path
) -> None:
    stamp(setup, clone, "dev")
    assert (is_ready(setup, "dev"), is_ready(setup, "demo")) == (True, True)
    stamp(setup, clone, "demo")
    assert (is_ready(setup, "dev"), is_ready(setup, "demo")) == (False, True)


def test_an_unknown_kind_of_environment_is_refused_in_one_line(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["setup.py", "prod"])
    assert setup.main() == 2
    assert capsys.readouterr().err == "setup: unknown kind of environment prod: use one of demo, dev\n"


def test_uv_installs_the_locks_and_pip_takes_over_where_it_fails(
    setup: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def run_long(command: list[str], otherwise: str) -> None:
        ran.append(" ".join(command))
        if command[0] == "/bin/uv" and fails:
            raise setup.Stop(otherwise)

    monkeypatch.setattr(setup, "run_long", run_long)
    fails = False
    setup.install_lock("/bin/uv", ["pip"], "requirements/demo.txt", "--no-build-isolation")
    assert len(ran) == 1
    assert "--require-hashes" in ran[0]
    fails = True
    setup.install_lock("/bin/uv", ["pip"], "requirements/demo.txt", "--no-build-isolation")
    assert [command.split()[0] for command in ran] == ["/bin/uv", "/bin/uv", "pip"]
    assert "--require-hashes" in ran[2]
    assert "uv failed, installing with pip" in capsys.readouterr().err


def test_uv_is_passed_over_where_only_pip_knows_the_index(
    setup: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(clone / "bin" / "uv", "true")
    put(clone / ".venv" / "bin" / "python", 'echo "$LISTED"')
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    monkeypatch.delenv("UV_INDEX_URL", raising=False)
    monkeypatch.setenv("LISTED", "global.timeout='5'")
    assert setup.find_uv() == str(clone / "bin" / "uv")
    monkeypatch.setenv("LISTED", "global.index-url='https://packages.invalid/simple'")
    assert setup.find_uv() is None
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://packages.invalid/simple")
    assert setup.find_uv() == str(clone / "bin" / "uv")


@pytest.mark.parametrize(
    ("output", "step"),
    [
        ("Downloading mmh3-5.3.1-cp311-cp311-manylinux_2_28_x86_64.whl (103 kB)\n", "downloading mmh3 5.3.1"),
        ("Collecting pyarrow==26.0.1 (from -r requirements/dev.txt)\n", "collecting pyarrow"),
        ("  Building wheel for pyspark (pyproject.toml): started\n", "building pyspark"),
        ("Installing collected packages: thrift, sortedcontainers, pyroaring\n", "installing packages"),
        ("Looking in links\n", "still running"),
        ("", "still running"),
    ],
    ids=["download", "collect", "build", "install", "other", "nothing"],
)
def test_progress_is_told_in_whole_phrases(setup: ModuleType, tmp_path: Path, output: str, step: str) -> None:
    path = tmp_path / "output"
    path.write_text("x" * 30_000 + "\n" + output, encoding="utf-8")
    with path.open() as stream:
        assert setup.last_step(stream.fileno()) == step


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
    before = setup.fingerprint("dev")
    text = project.read_text(encoding="utf-8")
    project.write_text(text.replace("line-length = 110", "line-length = 99"), encoding="utf-8")
    assert setup.fingerprint("dev") == before
    project.write_text(text.replace('"click>=8.1"', '"click>=8.2"'), encoding="utf-8")
    assert setup.fingerprint("dev") != before


def test_a_moved_clone_is_noticed(setup: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stamp(setup, clone)
    monkeypatch.setattr(setup, "ROOT", clone)
    here = setup.fingerprint("dev")
    moved = clone.rename(clone.parent / "moved")
    monkeypatch.setattr(setup, "ROOT", moved)
    monkeypatch.setattr(setup, "VENV", moved / ".venv")
    monkeypatch.setattr(setup, "PYTHON", str(moved / ".venv" / "bin" / "python"))
    assert setup.fingerprint("dev") != here
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
    monkeypatch.setattr(setup, "find_uv", lambda: None)
    with pytest.raises(KeyboardInterrupt):
        setup.install_packages("dev")
    setup.install_packages("dev")
    assert len(made) == 2
    setup.install_packages("dev")  # a changed lock: what is whole is kept
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
    # The real virtualenv, which starts from the real Python for any requested one.
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
        setup.ensure_java()


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


def test_a_failing_step_shows_its_output_and_the_next_step(
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
    assert "downloading something" in capsys.readouterr().err


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
    assert "another set-up is running" in said


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
