"""Makes `.venv` from the hash-locked requirements and sees to a Java for Spark. Started by setup.sh.

Safe to interrupt and to start twice: the steps are repeatable, and a lock on the project folder lets one in.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = str(VENV / "bin" / "python")
STAMP = VENV / "icemirror-setup.json"
UNFINISHED = VENV / "icemirror-unfinished"
LOCKS = ("requirements/build.txt", "requirements/dev.txt")
JAVA_PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless")
HEARTBEAT_SECONDS = 15

# Settings of the user's that would make pip install to another place than into .venv.
FOREIGN = (
    "PIP_USER",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_REQUIRE_VIRTUALENV",
    "PYTHONPATH",
    "PYTHONHOME",
)


class Stop(Exception):
    """Set-up cannot go on; the message is one line that says what to do."""


def say(line: str) -> None:
    """Tell the person who waits."""
    print(f"setup: {line}", file=sys.stderr, flush=True)


def fingerprint() -> str:
    """Changes when other packages are wanted, or the project folder has moved (scripts hold its path)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    parts = [project.get("build-system"), project.get("project"), project.get("tool", {}).get("setuptools")]
    digest = hashlib.sha256(json.dumps([str(ROOT), parts], sort_keys=True).encode())
    for name in LOCKS:
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def read_stamp() -> dict[str, str]:
    """What the last set-up wrote when it had finished a part."""
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(stamp: dict[str, str]) -> None:
    """All of it or nothing, so that an interruption leaves no half stamp."""
    fresh = STAMP.with_suffix(".new")
    fresh.write_text(json.dumps(stamp), encoding="utf-8")
    fresh.replace(STAMP)


def packages_ready(stamp: dict[str, str]) -> bool:
    """Is what the locks name in .venv?"""
    return stamp.get("packages") == fingerprint() and os.access(VENV / "bin" / "icemirror", os.X_OK)


def java_ready(stamp: dict[str, str]) -> bool:
    """Is the Java that was found still there?"""
    return os.access(Path(stamp.get("java", "/nowhere")) / "bin" / "java", os.X_OK)


@contextmanager
def alone_in_this_folder() -> Iterator[None]:
    """One set-up at a time. The lock ends with the process, however it ends; it needs no file of its own."""
    folder = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up is at work in this folder, waiting for it")
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def clean_environment() -> dict[str, str]:
    """The user's environment (indexes, proxies, certificates stay) less what leads pip or Python astray."""
    environ = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    return environ | {"PYTHONNOUSERSITE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}


def succeeds(*command: str) -> bool:
    """Run quietly; did it work?"""
    nothing = subprocess.DEVNULL
    try:
        done = subprocess.run(
            command, env=clean_environment(), stdin=nothing, stdout=nothing, stderr=nothing, check=False
        )
    except OSError:
        return False
    return done.returncode == 0


def run_long(command: Sequence[str], otherwise: str) -> None:
    """Run something that takes minutes: a sign of life now and then, its own words only if it fails."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=clean_environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        started = last_word = time.monotonic()
        try:
            while process.poll() is None:
                time.sleep(0.1)
                if time.monotonic() - last_word > HEARTBEAT_SECONDS:
                    last_word = time.monotonic()
                    say(f"  … {last_word - started:.0f} s: {last_line(output.fileno())}")
        except BaseException:
            process.terminate()
            process.wait()
            raise
        if process.returncode != 0:
            output.seek(0)
            for line in output.read().splitlines()[-15:]:
                say(f"  | {line}")
            raise Stop(otherwise)


def last_line(descriptor: int) -> str:
    """The newest thing that the command has said."""
    size = os.fstat(descriptor).st_size
    tail = os.pread(descriptor, 2000, max(0, size - 2000)).decode(errors="replace")
    return tail.strip().splitlines()[-1].strip()[:90] if tail.strip() else "at work"


def venv_is_sound() -> bool:
    """Does .venv have a pip that works, and was it made in this very folder?"""
    try:
        shebang = (VENV / "bin" / "pip").read_text(encoding="utf-8", errors="replace")[:1000]
    except OSError:
        return False
    return str(VENV) in shebang and succeeds(PYTHON, "-I", "-m", "pip", "--version")


def make_venv() -> None:
    """An environment with pip in it, by whatever of venv and virtualenv there is."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    say(f"making .venv with Python {version}")
    package = f"python{version}-venv"
    if not (made_by_venv() or made_by_virtualenv() or (installed_by_apt(package) and made_by_venv())):
        shutil.rmtree(VENV, ignore_errors=True)
        what = f"sudo apt-get install {package}" if shutil.which("apt-get") else "install virtualenv"
        raise Stop(f"{sys.executable} cannot make environments: {what}, then run this again")


def made_by_venv() -> bool:
    """The standard way; on Debian it fails without the package python3-venv."""
    shutil.rmtree(VENV, ignore_errors=True)
    return succeeds(sys.executable, "-I", "-m", "venv", str(VENV)) and venv_is_sound()


def made_by_virtualenv() -> bool:
    """virtualenv brings its own pip."""
    program = shutil.which("virtualenv")
    commands = [[sys.executable, "-m", "virtualenv"]]
    if program:
        commands.insert(0, [program, "--python", sys.executable])
    for command in commands:
        shutil.rmtree(VENV, ignore_errors=True)
        if succeeds(*command, str(VENV)) and venv_is_sound():
            return True
    return False


def installed_by_apt(*packages: str) -> bool:
    """Install the first of these packages that there is, where that needs no password."""
    if not shutil.which("apt-get"):
        return False
    if os.geteuid() == 0:
        prefix = []
    elif shutil.which("sudo") and succeeds("sudo", "-n", "true"):
        prefix = ["sudo", "-n"]
    else:
        return False
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    for refresh in (False, True):
        if refresh:
            succeeds(*apt, "update")
        for package in packages:
            say(f"installing the system package {package}")
            if succeeds(*apt, "install", "-y", "--no-install-recommends", package):
                return True
    return False


def install_packages() -> None:
    """The locked packages, then the project itself, so that `.venv/bin/icemirror` runs this folder's code."""
    # Whatever was cut off may have left half a package that pip takes for a whole one. Downloads are kept by pip.
    if UNFINISHED.exists() or not venv_is_sound():
        make_venv()
    UNFINISHED.touch()
    pip = [PYTHON, "-I", "-m", "pip", "install", "--progress-bar", "off"]
    locked = [*pip, "--require-hashes"]
    failed = "the packages could not be installed (see above); run this again and it goes on from here"
    say("installing the locked packages (the first time about 600 MB: some minutes)")
    # setuptools first, from its own lock: what has no wheel (pyspark) is built with nothing unchecked.
    run_long([*locked, "--only-binary", ":all:", "-r", "requirements/build.txt"], failed)
    run_long([*locked, "--no-build-isolation", "--use-pep517", "-r", "requirements/dev.txt"], failed)
    run_long([*pip, "--no-deps", "--no-build-isolation", "--no-index", "--editable", "."], failed)
    UNFINISHED.unlink()


def find_java() -> tuple[str, str]:
    """The Java that the job would take, or why there is none."""
    command = [PYTHON, "-m", "spark_job.runtime.java"]
    done = subprocess.run(
        command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, check=False
    )
    return done.stdout.strip(), done.stderr.strip()


def see_to_java() -> str:
    """A Java for Spark: the one that is there, else Debian's."""
    home, complaint = find_java()
    if not home and installed_by_apt(*JAVA_PACKAGES):
        home, complaint = find_java()
    if not home:
        raise Stop(complaint)
    say(f"Spark will run on the Java in {home}")
    return home


def main() -> int:
    """0: everything is there."""
    if sys.argv[1:] == ["--check"]:
        stamp = read_stamp()
        return 0 if packages_ready(stamp) and java_ready(stamp) else 1
    try:
        with alone_in_this_folder():
            stamp = read_stamp()
            if not packages_ready(stamp):
                install_packages()
                stamp = {"packages": fingerprint()}
                write_stamp(stamp)
            if not java_ready(stamp):
                write_stamp(stamp | {"java": see_to_java()})
    except Stop as stop:
        say(str(stop))
        return 2
    except KeyboardInterrupt:
        say("interrupted; run it again and it goes on from here")
        return 130
    say("ready: .venv/bin/icemirror")
    return 0


if __name__ == "__main__":
    sys.exit(main())
