"""Set-up: the choice of Python, unchanged environments, fallbacks, and error messages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from tests.processes.house.scripts import write_script


def write_fake_python(path: Path, *, supported: bool) -> None:
    """Write a fake Python, supported or not, which prints its name when set-up runs it."""
    write_script(path, f'[ "$2" = -c ] && exit {0 if supported else 1}\necho "{path.name} runs $*"')


def run_setup(clone: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [str(clone / "scripts" / "setup.sh")]
    environ = {"PATH": str(clone / "bin")} | environ
    return subprocess.run(command, env=environ, cwd="/", capture_output=True, text=True, check=False)


def test_newest_supported_python_is_chosen(clone: Path) -> None:
    write_fake_python(clone / "bin" / "python3", supported=True)
    write_fake_python(clone / "bin" / "python3.12", supported=True)
    write_fake_python(clone / "bin" / "python3.13", supported=False)
    completed = run_setup(clone)
    assert completed.stdout == "python3.12 runs -I scripts/setup.py dev\n"
    assert completed.returncode == 0


def test_python_variable_is_used_and_not_replaced_by_another_python(clone: Path) -> None:
    write_fake_python(clone / "bin" / "python3", supported=True)
    write_fake_python(clone / "mine", supported=True)
    assert run_setup(clone, PYTHON=str(clone / "mine")).stdout.startswith("mine runs")
    write_fake_python(clone / "mine", supported=False)
    completed = run_setup(clone, PYTHON=str(clone / "mine"))
    assert completed.returncode == 2
    assert "is not a Python 3.11 or newer" in completed.stderr
    assert completed.stderr.count("\n") == 1


def test_missing_python_is_reported_in_one_line_with_a_remedy(clone: Path) -> None:
    write_fake_python(clone / "bin" / "python3", supported=False)
    completed = run_setup(clone)
    assert completed.returncode == 2
    assert completed.stderr.count("\n") == 1
    assert "apt-get install python3 python3-venv" in completed.stderr
    assert "brew install python@3.12" in completed.stderr


def test_ready_environment_is_not_changed(clone: Path) -> None:
    write_fake_python(clone / "bin" / "python3", supported=True)
    write_script(clone / ".venv" / "bin" / "python", "exit 0")
    completed = run_setup(clone)
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, "", "")
    write_script(clone / ".venv" / "bin" / "python", "exit 1")
    assert "python3 runs" in run_setup(clone).stdout


def stamp(setup: ModuleType, clone: Path, kind: str = "dev") -> None:
    write_script(clone / ".venv" / "bin" / "icemirror", "true")
    write_script(clone / "java" / "bin" / "java", "true")
    setup.write_stamp({"packages": f"{kind} {setup.fingerprint(kind)}", "java": str(clone / "java")})


def is_ready(setup: ModuleType, kind: str = "dev") -> bool:
    found = setup.read_stamp()
    return bool(setup.packages_ready(found, kind) and setup.java_ready(found))


def test_dev_environment_runs_the_demo_but_demo_environment_runs_no_tests(
    setup: ModuleType, clone: Path
) -> None:
    stamp(setup, clone, "dev")
    assert (is_ready(setup, "dev"), is_ready(setup, "demo")) == (True, True)
    stamp(setup, clone, "demo")
    assert (is_ready(setup, "dev"), is_ready(setup, "demo")) == (False, True)


def test_unknown_kind_of_environment_is_refused_in_one_line(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["setup.py", "prod"])
    assert setup.main() == 2
    assert capsys.readouterr().err == "setup: unknown kind of environment prod: use one of demo, dev\n"


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
def test_progress_is_reported_in_readable_phrases(
    setup: ModuleType, tmp_path: Path, output: str, step: str
) -> None:
    path = tmp_path / "output"
    path.write_text("x" * 30_000 + "\n" + output, encoding="utf-8")
    with path.open() as stream:
        assert setup.last_step(stream.fileno()) == step


def test_environment_is_ready_until_lock_command_java_or_stamp_changes(
    setup: ModuleType, clone: Path
) -> None:
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
    setup.STAMP.write_text('{"packa', encoding="utf-8")  # truncated by an interruption
    assert not is_ready(setup)


def test_changed_dependency_requires_a_new_set_up_and_a_style_setting_does_not(
    setup: ModuleType, clone: Path
) -> None:
    project = clone / "pyproject.toml"
    before = setup.fingerprint("dev")
    text = project.read_text(encoding="utf-8")
    project.write_text(text.replace("line-length = 110", "line-length = 99"), encoding="utf-8")
    assert setup.fingerprint("dev") == before
    project.write_text(text.replace('"click>=8.1"', '"click>=8.2"'), encoding="utf-8")
    assert setup.fingerprint("dev") != before


def test_moved_clone_is_detected(setup: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stamp(setup, clone)
    monkeypatch.setattr(setup, "ROOT", clone)
    before = setup.fingerprint("dev")
    moved = clone.rename(clone.parent / "moved")
    monkeypatch.setattr(setup, "ROOT", moved)
    monkeypatch.setattr(setup, "VENV", moved / ".venv")
    monkeypatch.setattr(setup, "PYTHON", str(moved / ".venv" / "bin" / "python"))
    assert setup.fingerprint("dev") != before
    write_script(moved / ".venv" / "bin" / "python", "exit 0")
    (moved / ".venv" / "bin" / "pip").write_text(f"#!{clone}/.venv/bin/python\n", encoding="utf-8")
    assert not setup.venv_is_sound()
    (moved / ".venv" / "bin" / "pip").write_text(f"#!{moved}/.venv/bin/python\n", encoding="utf-8")
    assert setup.venv_is_sound()


def test_interrupted_installation_restarts_with_an_empty_environment(
    setup: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    created: list[int] = []
    interrupted = [True]

    def create_venv() -> None:
        created.append(1)
        shutil.rmtree(setup.VENV, ignore_errors=True)
        write_script(setup.VENV / "bin" / "pip", f"# {setup.VENV}")

    def run_with_progress(command: list[str]) -> bool:
        if interrupted.pop() if interrupted else False:
            raise KeyboardInterrupt
        return True

    monkeypatch.setattr(setup, "create_venv", create_venv)
    monkeypatch.setattr(setup, "run_with_progress", run_with_progress)
    monkeypatch.setattr(setup, "succeeds", lambda *command: True)
    monkeypatch.setattr(setup, "find_or_install_uv", lambda _pip: None)
    with pytest.raises(KeyboardInterrupt):
        setup.install_packages("dev")
    setup.install_packages("dev")
    assert len(created) == 2
    setup.install_packages("dev")  # a changed lock: a complete environment is kept
    assert len(created) == 2


@pytest.fixture
def debian_python(clone: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python without ensurepip, like Debian without python3-venv."""
    broken = clone / "debian-python"
    write_script(
        broken, f'case "$*" in *"-m venv"*|*"-m virtualenv"*) exit 1;; esac\nexec {sys.executable} "$@"'
    )
    monkeypatch.setattr(sys, "executable", str(broken))
    return broken


def test_virtualenv_is_used_without_venv(setup: ModuleType, debian_python: Path, clone: Path) -> None:
    program = Path(sys.prefix) / "bin" / "virtualenv"
    real = Path(sys.prefix) / "bin" / "python"
    # The real virtualenv, which uses the real Python instead of the requested one.
    write_script(
        clone / "bin" / "virtualenv", f'shift 2\nexec "{real}" "{program}" --quiet --no-periodic-update "$@"'
    )
    setup.create_venv()
    assert setup.venv_is_sound()


def test_missing_venv_without_root_is_reported_in_one_line_with_a_remedy(
    setup: ModuleType, debian_python: Path, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(setup.SetupFailed, match="install virtualenv"):
        setup.create_venv()
    write_script(clone / "bin" / "apt-get", "exit 1")
    with pytest.raises(setup.SetupFailed, match=f"sudo apt-get install {package}, then run") as failure:
        setup.create_venv()
    assert "\n" not in str(failure.value)
    assert not setup.VENV.exists()


@pytest.mark.parametrize("user", ["root", "sudoer", "nobody"])
def test_system_packages_are_installed_only_without_a_password_prompt(
    setup: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    log = clone / "said"
    monkeypatch.setattr(os, "geteuid", lambda: 0 if user == "root" else 1000)
    write_script(clone / "bin" / "apt-get", f'echo "$*" >> "{log}"\ncase "$*" in *17*) exit 100;; esac')
    (clone / "bin" / "env").symlink_to(shutil.which("env", path=os.defpath) or "/usr/bin/env")
    if user == "sudoer":
        write_script(clone / "bin" / "sudo", '[ "$1" = -n ] || exit 1\nshift\nexec "$@"')
        (clone / "bin" / "true").symlink_to(shutil.which("true", path=os.defpath) or "/bin/true")
    completed = setup.install_with_apt(*setup.JAVA_PACKAGES)
    if user == "nobody":
        assert not completed
        assert not log.exists()
    else:
        assert completed
        assert log.read_text().splitlines() == [
            "-qq install -y --no-install-recommends openjdk-17-jre-headless",
            "-qq install -y --no-install-recommends openjdk-21-jre-headless",
        ]


def test_missing_java_stops_set_up_with_the_error_of_the_job(
    setup: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(
        setup, "find_java", lambda: ("", "Spark needs Java 17 or 21, found no Java: install …")
    )
    with pytest.raises(setup.SetupFailed, match="Spark needs Java 17 or 21"):
        setup.ensure_java()


def test_settings_that_redirect_pip_are_removed(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_USER", "PIP_TARGET", "PYTHONPATH"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PIP_INDEX_URL", "kept")
    environ = setup.clean_environment()
    assert not {"PIP_USER", "PIP_TARGET", "PYTHONPATH"} & set(environ)
    assert environ["PIP_INDEX_URL"] == "kept"
    assert environ["PYTHONNOUSERSITE"] == "1"


def test_failing_step_prints_its_output_and_a_remedy(
    setup: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(setup.SetupFailed, match="run this again"):
        setup.run_or_fail(["sh", "-c", "echo the reason; exit 1"], "run this again")
    assert "| the reason" in capsys.readouterr().err


def test_long_step_reports_progress(
    setup: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "HEARTBEAT_SECONDS", 0.2)
    assert setup.run_with_progress(["sh", "-c", "echo Downloading something; sleep 1"])
    assert "downloading something" in capsys.readouterr().err


def test_second_set_up_waits_for_the_first(clone: Path) -> None:
    order = clone / "order"
    script = """
import importlib.util, sys, time
spec = importlib.util.spec_from_file_location("s", sys.argv[1]); s = importlib.util.module_from_spec(spec)
spec.loader.exec_module(s)
with s.lock_project_folder():
    for word in ("in", "out"):
        with open(sys.argv[2], "a") as f: f.write(word + "\\n")
        time.sleep(0.5)
"""
    command = [sys.executable, "-c", script, str(clone / "scripts" / "setup.py"), str(order)]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    errors = "".join(process.communicate(timeout=30)[1] for process in both)
    assert order.read_text().split() == ["in", "out", "in", "out"]
    assert "another set-up is running" in errors


def test_killed_set_up_leaves_no_lock(clone: Path) -> None:
    script = """
import importlib.util, sys, time
spec = importlib.util.spec_from_file_location("s", sys.argv[1]); s = importlib.util.module_from_spec(spec)
spec.loader.exec_module(s)
with s.lock_project_folder():
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
