"""The choice of Java for Spark, among fake installations and those of this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from icemirror.errors import Exit, Invalid, exit_code
from spark_job.engine import java as subject
from spark_job.engine import session
from spark_job.engine.java import (
    Java,
    choose_java,
    describe_remedy,
    find_java,
    installed_javas,
    parse_major,
    probe,
    set_java_home,
)


def install_fake_java(home: Path, version: str, *, release: bool = True, executable: bool = True) -> Path:
    """Create a directory with the layout of an installed Java of this version."""
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(
        f"#!/bin/sh\necho '    java.home = {home}' >&2\necho '    java.version = {version}' >&2\n"
    )
    binary.chmod(0o755 if executable else 0o644)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="Vendor"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.mark.parametrize(
    ("version", "major"),
    [
        ("17.0.15", 17),
        ("21", 21),
        ("21-ea", 21),
        ("1.8.0_392", 8),
        ("25.0.3", 25),
        ("11.0.2+9", 11),
        ("?", None),
    ],
)
def test_major_version_is_read_from_old_and_new_numbering(version: str, major: int | None) -> None:
    assert parse_major(version) == major


@pytest.mark.parametrize("major", [8, 11, 16, 18, 20, 22, 23, 24, 25, 26])
def test_unsupported_versions_are_never_chosen(major: int) -> None:
    assert choose_java([Java(Path("/j"), major)]) is None


def test_first_supported_java_is_chosen() -> None:
    supported = Java(Path("/21"), 21)
    assert (
        choose_java([Java(Path("/25"), 25), Java(Path("/8"), 8), supported, Java(Path("/17"), 17)])
        == supported
    )


def test_java_home_precedes_path_and_default_locations(tmp_path: Path) -> None:
    home = install_fake_java(tmp_path / "mine", "21.0.4")
    other = install_fake_java(tmp_path / "other", "17.0.1")
    install_fake_java(tmp_path / "jvm" / "17", "17.0.9")
    environ = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}
    assert find_java(environ, [f"{tmp_path}/jvm/*"]) == home


def test_unsupported_java_home_and_path_are_skipped_for_a_supported_java(tmp_path: Path) -> None:
    newer = install_fake_java(tmp_path / "temurin-25", "25.0.3")
    supported = install_fake_java(tmp_path / "jvm" / "java-21", "21.0.4")
    environ = {"JAVA_HOME": str(newer), "PATH": str(newer / "bin")}
    assert find_java(environ, [f"{tmp_path}/jvm/*"]) == supported


def test_java_17_precedes_21_in_default_locations(tmp_path: Path) -> None:
    install_fake_java(tmp_path / "jvm" / "a-21", "21.0.4")
    older = install_fake_java(tmp_path / "jvm" / "b-17", "17.0.9")
    assert find_java({}, [f"{tmp_path}/jvm/*"]) == older


def test_home_directory_locations_are_searched(tmp_path: Path) -> None:
    supported = install_fake_java(tmp_path / ".sdkman/candidates/java/17.0.9-tem", "17.0.9")
    assert find_java({"HOME": str(tmp_path)}, ["~/.sdkman/candidates/java/*"]) == supported
    with pytest.raises(Invalid, match="found no Java"):
        find_java({}, ["~/.sdkman/candidates/java/*"])


def test_symbolic_link_on_path_resolves_to_the_java_home(tmp_path: Path) -> None:
    home = install_fake_java(tmp_path / "jvm" / "java-17", "17.0.9")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}, []) == home


def test_java_without_release_file_is_executed_and_a_shim_resolves_to_its_home(tmp_path: Path) -> None:
    home = install_fake_java(tmp_path / "real", "17.0.9", release=False)
    shim = tmp_path / "shims" / "bin" / "java"
    shim.parent.mkdir(parents=True)
    shim.write_text(f'#!/bin/sh\nexec "{home}/bin/java" "$@"\n')
    shim.chmod(0o755)
    assert probe(tmp_path / "shims") == Java(home, 17)


def test_java_that_hangs_or_fails_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "PROBE_TIMEOUT_SECONDS", 0.2)
    for name, script in (
        ("hangs", "exec sleep 60"),
        ("fails", f"echo 'java.home = {tmp_path}'; echo 'java.version = 17'; exit 1"),
        ("silent", "true"),
    ):
        binary = tmp_path / name / "bin" / "java"
        binary.parent.mkdir(parents=True)
        binary.write_text(f"#!/bin/sh\n{script}\n")
        binary.chmod(0o755)
    install_fake_java(tmp_path / "plain-file", "17.0.9", executable=False)
    supported = install_fake_java(tmp_path / "works", "17.0.9")
    assert list(installed_javas({}, [f"{tmp_path}/*"])) == [Java(supported, 17)]


def test_java_with_two_names_counts_once(tmp_path: Path) -> None:
    home = install_fake_java(tmp_path / "java-17-openjdk", "17.0.9")
    (tmp_path / "java-1.17.0").symlink_to(home)
    assert len(list(installed_javas({"JAVA_HOME": str(home)}, [f"{tmp_path}/*"]))) == 1


def test_error_lists_unsupported_javas(tmp_path: Path) -> None:
    newer = install_fake_java(tmp_path / "jvm" / "temurin-25", "25.0.3")
    older = install_fake_java(tmp_path / "jvm" / "java-8", "1.8.0_392")
    with pytest.raises(Invalid) as caught:
        find_java({}, [f"{tmp_path}/jvm/*"])
    message = str(caught.value)
    assert f"Java 25 in {newer}" in message
    assert f"Java 8 in {older}" in message
    assert "\n" not in message
    assert exit_code(caught.value) == Exit.BLOCKED


@pytest.mark.parametrize(
    ("platform", "tools", "expected"),
    [
        ("darwin", [], "brew install openjdk@17"),
        ("linux", ["apt-get"], "apt-get install openjdk-17-jre-headless"),
        ("linux", ["dnf"], "dnf install java-17-openjdk-headless"),
        ("linux", [], "a Java 17 or 21 runtime"),
    ],
)
def test_remedy_matches_the_operating_system(platform: str, tools: list[str], expected: str) -> None:
    assert expected in describe_remedy([], platform, tools)


def test_set_java_home_changes_only_the_given_environment(tmp_path: Path) -> None:
    home = install_fake_java(tmp_path / "jvm" / "java-17", "17.0.9")
    environ = {
        "JAVA_HOME": str(install_fake_java(tmp_path / "25", "25")),
        "PATH": str(home / "bin"),
        "OTHER": "1",
    }
    assert set_java_home(environ) == home
    assert environ == {"JAVA_HOME": str(home), "PATH": str(home / "bin"), "OTHER": "1"}


def test_java_of_this_machine_is_supported_by_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import os

    home = find_java(os.environ)
    java = subject._run_java(home / "bin" / "java")
    assert java is not None
    assert java.major in subject.SUPPORTED_MAJORS
    assert sys.platform in ("linux", "darwin")


def test_replaced_java_home_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(session, "set_java_home", lambda environ: Path("/usr/lib/jvm/17"))
    good = install_fake_java(tmp_path / "good", "17.0.1")
    cases: list[tuple[dict[str, str], int]] = [
        ({}, 0),
        ({"JAVA_HOME": str(good)}, 0),
        ({"JAVA_HOME": str(tmp_path)}, 1),
    ]
    for environ, warnings in cases:
        caplog.clear()
        session._choose_java(environ)
        assert len(caplog.records) == warnings
