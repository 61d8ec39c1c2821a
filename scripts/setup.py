"""Creates `.venv` from the hash-locked requirements and finds or installs a Java for Spark. Started by setup.sh.

`setup.py demo` installs what the demo needs; `setup.py dev` the test tools as well. Safe to interrupt and to start
twice: the steps are repeatable, and a lock on the project folder admits one at a time.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
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
BUILD_LOCK = "requirements/build.txt"
UV_LOCK = "requirements/uv.txt"
# What each kind of environment is installed from; `dev` includes all of `demo`.
LOCKS = {"demo": "requirements/demo.txt", "dev": "requirements/dev.txt"}
KINDS = tuple(LOCKS)
JAVA_PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless")
HEARTBEAT_SECONDS = 15
INSTALL_FAILED = "the packages could not be installed (see above); run this again to continue"

# User settings that would make pip install outside of .venv.
REDIRECTING_VARIABLES = (
    "PIP_USER",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_REQUIRE_VIRTUALENV",
    "PYTHONPATH",
    "PYTHONHOME",
)


class SetupFailed(Exception):
    """Set-up cannot continue; the message is one line that states what to do."""


def print_progress(line: str) -> None:
    """Print a progress line."""
    print(f"setup: {line}", file=sys.stderr, flush=True)


def fingerprint(kind: str) -> str:
    """Return a hash of the locks, the project metadata and the project folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    parts = [project.get("build-system"), project.get("project"), project.get("tool", {}).get("setuptools")]
    digest = hashlib.sha256(json.dumps([str(ROOT), parts], sort_keys=True).encode())
    for name in (BUILD_LOCK, LOCKS[kind]):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def read_stamp() -> dict[str, str]:
    """Return what the last set-up recorded."""
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(stamp: dict[str, str]) -> None:
    """Write the stamp atomically: an interruption leaves the old one."""
    fresh = STAMP.with_suffix(".new")
    fresh.write_text(json.dumps(stamp), encoding="utf-8")
    fresh.replace(STAMP)


def packages_ready(stamp: dict[str, str], kind: str) -> bool:
    """Return whether .venv has the locked packages of this kind of environment."""
    if not os.access(VENV / "bin" / "icemirror", os.X_OK):
        return False
    sufficient_kinds = KINDS[KINDS.index(kind) :]
    return any(stamp.get("packages") == f"{kind} {fingerprint(kind)}" for kind in sufficient_kinds)


def java_ready(stamp: dict[str, str]) -> bool:
    """Return whether the Java that was found still exists."""
    return os.access(Path(stamp.get("java", "/nowhere")) / "bin" / "java", os.X_OK)


@contextmanager
def lock_project_folder() -> Iterator[None]:
    """Allow one set-up at a time. The lock ends with the process, however that ends, and needs no file."""
    folder = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print_progress("another set-up is running in this folder, waiting for it")
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def clean_environment() -> dict[str, str]:
    """Return the environment (indexes, proxies, certificates stay) without what would redirect pip or Python."""
    environ = {name: value for name, value in os.environ.items() if name not in REDIRECTING_VARIABLES}
    return environ | {"PYTHONNOUSERSITE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}


def succeeds(*command: str) -> bool:
    """Run a command without output; return whether it succeeded."""
    nothing = subprocess.DEVNULL
    try:
        done = subprocess.run(
            command, env=clean_environment(), stdin=nothing, stdout=nothing, stderr=nothing, check=False
        )
    except OSError:
        return False
    return done.returncode == 0


def run_with_progress(command: Sequence[str]) -> bool:
    """Run a command that takes minutes, with progress lines; print its output only if it fails. Return its success."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=clean_environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        started = reported = time.monotonic()
        try:
            while process.poll() is None:
                time.sleep(0.1)
                if time.monotonic() - reported > HEARTBEAT_SECONDS:
                    reported = time.monotonic()
                    print_progress(f"  … {reported - started:.0f} s: {last_step(output.fileno())}")
        except BaseException:
            process.terminate()
            process.wait()
            raise
        if process.returncode != 0:
            output.seek(0)
            for line in output.read().splitlines()[-15:]:
                print_progress(f"  | {line}")
        return process.returncode == 0


def run_or_fail(command: Sequence[str], failure_message: str) -> None:
    """Run a command that takes minutes; raise if it fails."""
    if not run_with_progress(command):
        raise SetupFailed(failure_message)


# Lines of pip and uv that name a package, and the words for them.
STEPS = (
    (re.compile(r"^Downloading (\S+?)-(\d[^-\s]*)"), "downloading {0} {1}"),
    (re.compile(r"^Downloading (\S+)"), "downloading {0}"),
    (re.compile(r"^Building wheels? for (?:collected packages: )?([\w.-]+)"), "building {0}"),
    (re.compile(r"^Collecting ([\w.-]+)"), "collecting {0}"),
    (re.compile(r"^Installing collected packages: (.*)"), "installing packages"),
)


def last_step(descriptor: int) -> str:
    """Return the newest step that the command reported, as a phrase."""
    size = os.fstat(descriptor).st_size
    tail = os.pread(descriptor, 20_000, max(0, size - 20_000)).decode(errors="replace")
    for line in reversed(tail.splitlines()):
        for pattern, phrase in STEPS:
            if match := pattern.match(line.strip()):
                return phrase.format(*match.groups())
    return "still running"


def venv_is_sound() -> bool:
    """Return whether .venv has a working pip and was created in this folder."""
    try:
        shebang = (VENV / "bin" / "pip").read_text(encoding="utf-8", errors="replace")[:1000]
    except OSError:
        return False
    return str(VENV) in shebang and succeeds(PYTHON, "-I", "-m", "pip", "--version")


def create_venv() -> None:
    """Create an environment with pip, by venv, virtualenv or uv."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    print_progress(f"creating .venv with Python {version}")
    package = f"python{version}-venv"
    ways = (
        create_with_venv,
        create_with_virtualenv,
        create_with_uv,
        lambda: install_with_apt(package) and create_with_venv(),
    )
    if not any(way() for way in ways):
        shutil.rmtree(VENV, ignore_errors=True)
        what = f"sudo apt-get install {package}" if shutil.which("apt-get") else "install virtualenv"
        raise SetupFailed(f"{sys.executable} cannot create environments: {what}, then run this again")


def create_with_venv() -> bool:
    """Create .venv with the standard library; on Debian this needs the package python3-venv."""
    shutil.rmtree(VENV, ignore_errors=True)
    return succeeds(sys.executable, "-I", "-m", "venv", str(VENV)) and venv_is_sound()


def create_with_virtualenv() -> bool:
    """Create .venv with virtualenv, which includes pip."""
    program = shutil.which("virtualenv")
    commands = [[sys.executable, "-m", "virtualenv"]]
    if program:
        commands.insert(0, [program, "--python", sys.executable])
    for command in commands:
        shutil.rmtree(VENV, ignore_errors=True)
        if succeeds(*command, str(VENV)) and venv_is_sound():
            return True
    return False


def create_with_uv() -> bool:
    """Create .venv with uv, which includes pip."""
    program = shutil.which("uv")
    if not program:
        return False
    shutil.rmtree(VENV, ignore_errors=True)
    return succeeds(program, "venv", "--seed", "--python", sys.executable, str(VENV)) and venv_is_sound()


def install_with_apt(*packages: str) -> bool:
    """Install the first of these packages that exists, if that needs no password."""
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
            print_progress(f"installing the system package {package}")
            if succeeds(*apt, "install", "-y", "--no-install-recommends", package):
                return True
    return False


def find_or_install_uv(pip: Sequence[str]) -> str | None:
    """Return the user's uv, else install one, which is several times faster than pip.

    Return None if pip has an index of its own: uv does not read pip's configuration.
    """
    config = subprocess.run(
        [PYTHON, "-I", "-m", "pip", "config", "list"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    uses_own_index = "index-url" in config.stdout and not os.environ.keys() & {
        "UV_INDEX_URL",
        "UV_DEFAULT_INDEX",
    }
    if uses_own_index:
        return None
    if program := shutil.which("uv"):
        return program
    installed = run_with_progress([*pip, "--require-hashes", "--only-binary", ":all:", "-r", UV_LOCK])
    return str(VENV / "bin" / "uv") if installed else None


def install_packages(kind: str) -> None:
    """Install the locked packages, then the project, so that `.venv/bin/icemirror` runs this folder's code."""
    # An interrupted installation may have left half a package that pip takes for a whole one. Downloads are cached.
    if UNFINISHED.exists() or not venv_is_sound():
        create_venv()
    UNFINISHED.touch()
    pip = [PYTHON, "-I", "-m", "pip", "install", "--progress-bar", "off"]
    uv = find_or_install_uv(pip)
    size = {"demo": "450 MB", "dev": "600 MB"}[kind]
    print_progress(
        f"installing the locked packages with {'uv' if uv else 'pip'} (the first time about {size}: some minutes)"
    )
    # setuptools first, from its own lock: what has no wheel (pyspark) is built with nothing unchecked.
    install_lock(uv, pip, BUILD_LOCK, "--only-binary", ":all:")
    install_lock(uv, pip, LOCKS[kind], "--no-build-isolation")
    run_or_fail([*pip, "--no-deps", "--no-build-isolation", "--no-index", "--editable", "."], INSTALL_FAILED)
    UNFINISHED.unlink()


def install_lock(uv: str | None, pip: Sequence[str], lock: str, *options: str) -> None:
    """Install a lock by hash, with uv if there is one; pip is tried where uv fails."""
    arguments = ["--require-hashes", *options, "-r", lock]
    if uv:
        if run_with_progress([uv, "pip", "install", "--python", PYTHON, *arguments]):
            return
        print_progress("uv failed, installing with pip")
    run_or_fail([*pip, "--use-pep517", *arguments], INSTALL_FAILED)


def find_java() -> tuple[str, str]:
    """Return the Java that the job would use, and the reason if there is none."""
    command = [PYTHON, "-m", "spark_job.engine.java"]
    done = subprocess.run(
        command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, check=False
    )
    return done.stdout.strip(), done.stderr.strip()


def ensure_java() -> str:
    """Return a Java for Spark: an installed one, else Debian's."""
    home, reason = find_java()
    if not home and install_with_apt(*JAVA_PACKAGES):
        home, reason = find_java()
    if not home:
        raise SetupFailed(reason)
    print_progress(f"Spark will run on the Java in {home}")
    return home


def main() -> int:
    """Return 0 if everything is installed."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    kind = arguments[0] if arguments else "dev"
    if kind not in KINDS:
        print_progress(f"unknown kind of environment {kind}: use one of {', '.join(KINDS)}")
        return 2
    if "--check" in sys.argv[1:]:
        stamp = read_stamp()
        return 0 if packages_ready(stamp, kind) and java_ready(stamp) else 1
    try:
        with lock_project_folder():
            stamp = read_stamp()
            if not packages_ready(stamp, kind):
                install_packages(kind)
                stamp = {"packages": f"{kind} {fingerprint(kind)}"}
                write_stamp(stamp)
            if not java_ready(stamp):
                write_stamp(stamp | {"java": ensure_java()})
    except SetupFailed as failure:
        print_progress(str(failure))
        return 2
    except KeyboardInterrupt:
        print_progress("interrupted; run it again to continue")
        return 130
    print_progress("ready: .venv/bin/icemirror")
    return 0


if __name__ == "__main__":
    sys.exit(main())
