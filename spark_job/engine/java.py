"""Finds an installed Java that Spark supports: 17 or 21."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from icemirror.errors import Invalid

# Spark 4.0 documents 17 and 21. A newer Java fails at the first file access ("getSubject is not supported": JEP 486
# removed the method that Hadoop calls); an older one cannot load Spark's classes.
SUPPORTED_MAJORS = (17, 21)
PROBE_TIMEOUT_SECONDS = 10

# Where packages, Homebrew (both prefixes), SDKMAN and IDEs install Java.
USUAL_LOCATIONS = (
    "/usr/lib/jvm/*",
    "/usr/lib64/jvm/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/home/linuxbrew/.linuxbrew/opt/openjdk*",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
    "/opt/*",
    "/opt/java/*",
)


@dataclass(frozen=True, slots=True)
class Java:
    """An installed Java: its home directory and its major version."""

    home: Path
    major: int


def parse_major(version: str) -> int | None:
    """Return the major version: 17.0.15 → 17, 1.8.0_392 → 8, 21-ea → 21."""
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match.group(1)) if match else None


def choose_java(candidates: Iterable[Java]) -> Java | None:
    """Return the first supported candidate; candidates are in order of preference."""
    return next((java for java in candidates if java.major in SUPPORTED_MAJORS), None)


def describe_remedy(installed: Iterable[Java], platform: str, package_tools: Iterable[str]) -> str:
    """Return one line: which unsupported Javas are installed, and what to install on this system."""
    unsupported = sorted({(java.major, str(java.home)) for java in installed})
    tools = set(package_tools)
    if platform == "darwin":
        install = "`brew install openjdk@17`"
    elif "apt-get" in tools:
        install = "`sudo apt-get install openjdk-17-jre-headless` (or openjdk-21-jre-headless)"
    elif "dnf" in tools:
        install = "`sudo dnf install java-17-openjdk-headless` (or java-21-openjdk-headless)"
    else:
        install = "a Java 17 or 21 runtime"
    unsupported_list = ", ".join(f"Java {major} in {home}" for major, home in unsupported)
    problem = (
        f"found only {unsupported_list}, which Spark does not run on" if unsupported_list else "found no Java"
    )
    return f"Spark needs Java 17 or 21, {problem}: install {install}, or point JAVA_HOME at one"


def find_java(environ: Mapping[str, str], locations: Iterable[str] = USUAL_LOCATIONS) -> Path:
    """Return the home of a supported Java, searching JAVA_HOME, PATH, then the usual locations."""
    probed: list[Java] = []

    def probe_installed() -> Iterator[Java]:
        for java in installed_javas(environ, locations):
            probed.append(java)
            yield java

    if chosen := choose_java(probe_installed()):
        return chosen.home
    raise Invalid(
        describe_remedy(probed, sys.platform, [tool for tool in ("apt-get", "dnf") if shutil.which(tool)])
    )


def set_java_home(environ: MutableMapping[str, str]) -> Path:
    """Set JAVA_HOME in `environ` to a supported Java and return it; Spark's launcher reads it before PATH."""
    home = find_java(environ)
    environ["JAVA_HOME"] = str(home)
    return home


def is_supported(home: Path) -> bool:
    """Return whether Spark supports the Java in this directory."""
    java = probe(home)
    return java is not None and java.major in SUPPORTED_MAJORS


def installed_javas(environ: Mapping[str, str], locations: Iterable[str]) -> Iterator[Java]:
    """Yield every installed Java once, preferred ones first. Lazy: a supported JAVA_HOME ends the search."""
    homes: set[Path] = set()
    for candidate in _candidate_homes(environ, locations):
        java = probe(candidate)
        if java and (real_home := java.home.resolve()) not in homes:
            homes.add(real_home)
            yield java


def probe(home: Path) -> Java | None:
    """Return the Java in this directory. It is run only if no `release` file states its version."""
    binary = home / "bin" / "java"
    if not os.access(binary, os.X_OK):
        return None
    if (major := _read_release_file(home)) is not None:
        return Java(home, major)
    return _run_java(binary)


def _candidate_homes(environ: Mapping[str, str], locations: Iterable[str]) -> Iterator[Path]:
    if java_home := environ.get("JAVA_HOME"):
        yield Path(java_home)
    if java_on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield Path(java_on_path).resolve().parent.parent
    user_home = environ.get("HOME", "")
    for location in locations:
        if location.startswith("~") and not user_home:
            continue
        homes = Path("/").glob(location.replace("~", user_home, 1).lstrip("/"))
        yield from sorted(homes, key=_preference)


def _preference(home: Path) -> tuple[int, str]:
    """Return a sort key: Java 17 first, because Spark 3.5 does not support 21; then by name, for a stable choice."""
    major = _read_release_file(home)
    rank = SUPPORTED_MAJORS.index(major) if major in SUPPORTED_MAJORS else len(SUPPORTED_MAJORS)
    return (rank, str(home))


def _read_release_file(home: Path) -> int | None:
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r'^JAVA_VERSION="?([^"\s]+)', text, re.MULTILINE)
    return parse_major(match.group(1)) if match else None


def _run_java(binary: Path) -> Java | None:
    """Return the Java behind a binary. Its settings name the real home behind a shim (jenv, asdf, macOS's stub)."""
    command = [str(binary), "-XshowSettings:properties", "-version"]
    try:
        process = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    output = process.stderr + process.stdout
    home = re.search(r"^\s*java\.home = (.+)$", output, re.MULTILINE)
    version = re.search(r"^\s*java\.version = (\S+)$", output, re.MULTILINE)
    major = parse_major(version.group(1)) if version else None
    if process.returncode != 0 or not home or major is None:
        return None
    return Java(Path(home.group(1).strip()), major)


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{find_java(os.environ)}\n")
    except Invalid as error:
        sys.exit(str(error))
