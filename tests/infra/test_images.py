"""The Dockerfile, read: who runs, what is installed, what is copied. And the entry point of Spark's pods, run."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from icemirror.settings.trigger import EmrServerlessLauncher, KubernetesLauncher
from tests.unit.house.tracked import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
ENTRYPOINT = ROOT / "infra" / "images" / "spark-entrypoint.sh"


def stages() -> dict[str, str]:
    """The instructions of each stage, lines joined, by its name."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE).replace("\\\n", " ")
    found = re.split(r"^FROM (\S+) AS (\S+)$", text, flags=re.MULTILINE)
    return dict(zip(found[2::3], found[3::3], strict=True))


FINAL = ("trigger", "function", "job", "job-emr")


@pytest.mark.parametrize("name", FINAL)
def test_an_image_runs_as_nobody_of_weight(name: str) -> None:
    *_, user = re.findall(r"^USER (\S+)$", stages()[name], re.MULTILINE)
    if name == "job-emr":
        assert user == "hadoop:hadoop", "EMR runs custom images as its own user, and refuses others"
    else:
        assert int(user.partition(":")[0]) >= 10000


@pytest.mark.parametrize("name", FINAL)
def test_an_image_says_what_it_is_and_whether_it_is_well(name: str) -> None:
    text = stages()[name]
    assert {"title", "description", "licenses"} <= set(
        re.findall(r"org\.opencontainers\.image\.(\w+)=", text)
    )
    assert "HEALTHCHECK" in text
    assert not re.search(r"\b(gcc|build-essential|pip install|curl|wget)\b", text), "made in a stage before"


def test_everything_that_is_installed_is_locked_by_hash() -> None:
    for line in re.findall(r"pip install ([^&\n]+)", DOCKERFILE):
        ours = line.rstrip(" \\").endswith(".")
        assert ours or "--require-hashes" in line, line
        assert "--no-deps" in line, line
    for lock in re.findall(r"-r (requirements/\S+)", DOCKERFILE):
        assert (ROOT / lock).is_file(), lock


def test_what_is_copied_is_there_and_not_ignored() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for line in re.findall(r"^(?:COPY|ADD) (?!--from)(?:--\S+ )?(.+) \S+$", DOCKERFILE, re.MULTILINE):
        for source in line.replace("${DIST}", "dist").split():
            assert (ROOT / source).exists() or source.startswith("dist/"), source
            assert any(Path(source).match(one) or source.startswith(f"{one}/") for one in allowed), source


def test_bases_can_be_chosen_and_name_a_release() -> None:
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", DOCKERFILE, re.MULTILINE))
    assert defaults.pop("DIST") == "dist"
    assert set(defaults) == {"PYTHON_BASE", "EMR_BASE"}
    for base in defaults.values():
        assert re.search(r"\d+\.\d+", base), base  # (EMR has its release in the name)


COMMANDS = (ROOT / "docs" / "packaging.md").read_text(encoding="utf-8")
BUILDS = re.findall(r"^docker (?:buildx )?build .+$", COMMANDS, re.MULTILINE)


@pytest.mark.parametrize("command", BUILDS)
def test_a_documented_build_is_for_named_processors_and_one_image(command: str) -> None:
    """Lambda refuses an index with attestations, which is what Docker pushes unless told."""
    assert "--provenance=false" in command
    assert re.search(r"--platform linux/(amd64|arm64) ", command)
    target = re.search(r"--target (\S+)", command)
    assert target
    assert target[1] in FINAL


@pytest.mark.parametrize(
    ("platform", "arguments"), [("amd64", ""), ("arm64", "--arch arm64 --out dist-arm64")]
)
def test_emrs_image_takes_the_package_that_was_made_for_its_processors(platform: str, arguments: str) -> None:
    assert {target for one in BUILDS for target in re.findall(r"--target (\S+)", one)} == set(FINAL)
    packaged = f'make package ARGS="{arguments}"\n' if arguments else "make package\n"
    (block,) = [
        one
        for one in re.findall(r"^```sh\n(.*?)^```", COMMANDS, re.MULTILINE | re.DOTALL)
        if f"linux/{platform} " in one and "--target job-emr" in one
    ]
    assert block.startswith(packaged)
    (command,) = [one for one in block.splitlines() if "--target job-emr" in one]
    folder = re.search(r"--build-arg DIST=(\S+)", command)
    out = re.search(r"--out (\S+)", arguments)
    assert (folder and folder[1]) == (out and out[1])
    taken = f"{folder[1] if folder else 'dist'}/icemirror-job.tar.gz"
    assert f"!{taken}" in (ROOT / ".dockerignore").read_text().splitlines()


def test_the_functions_image_runs_what_its_zip_runs() -> None:
    command = re.search(r'^CMD \["(\S+)"\]$', stages()["function"], re.MULTILINE)
    assert command
    function = (ROOT / "infra" / "terraform" / "modules" / "trigger" / "main.tf").read_text(encoding="utf-8")
    assert f'null : "{command[1]}"' in function


def test_emrs_release_is_terraforms_and_has_the_python_of_the_package() -> None:
    """AWS' own samples name 7.13 as one whose workers run Python 3.11; the image of 7.9 has none but 3.9."""
    base = re.search(r"^ARG EMR_BASE=\S+/(emr-7\.(\d+)\.0)$", DOCKERFILE, re.MULTILINE)
    assert base
    variables = (ROOT / "infra" / "terraform" / "variables.tf").read_text(encoding="utf-8")
    assert f'release_label    = optional(string, "{base[1]}")' in variables
    assert int(base[2]) >= 13
    package = (ROOT / "scripts" / "package.py").read_text(encoding="utf-8")
    assert '"--job-python", default="3.11"' in package


def test_the_jobs_entry_point_is_where_the_launcher_looks_for_it() -> None:
    expected = str(KubernetesLauncher.model_fields["entry_point"].default).removeprefix("local://")
    for name in ("job", "job-emr"):
        assert f"COPY spark_job/submit/icemirror_job.py {expected}" in stages()[name]


def test_the_python_of_emrs_image_is_the_one_that_jobs_are_told_of() -> None:
    text, python = stages()["job-emr"], EmrServerlessLauncher.model_fields["python"].default
    environment = str(python).removesuffix("bin/python")
    assert re.search(rf"^ADD \S+/icemirror-job\.tar\.gz {environment}$", text, re.MULTILINE)
    assert set(re.findall(r"PYSPARK_(?:DRIVER_)?PYTHON=(\S+)", text)) == {python}
    maintenance = ROOT / "infra" / "terraform" / "modules" / "maintenance" / "main.tf"
    assert f'"{python}"' in maintenance.read_text(), "which starts jobs without the launcher"


@pytest.fixture
def pod(tmp_path: Path) -> dict[str, str]:
    """An environment in which the programs only say how they were called."""
    for place in (tmp_path / "tini", tmp_path / "bin" / "spark-submit"):
        place.parent.mkdir(exist_ok=True)
        place.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        place.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SPARK_HOME": str(tmp_path)}


def called(environ: dict[str, str], *arguments: str) -> list[str]:
    done = subprocess.run(
        [str(ENTRYPOINT), *arguments], env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_a_driver_submits_what_it_is_given(pod: dict[str, str]) -> None:
    said = called(
        {**pod, "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.1"}, "driver", "--class", "a b", "local:///x.py"
    )
    assert said[:2] == ["-s", "--"]
    assert said[2].endswith("/bin/spark-submit")
    assert "spark.driver.bindAddress=10.0.0.1" in said
    assert said[-3:] == ["--class", "a b", "local:///x.py"]


def test_an_executor_finds_its_driver_and_keeps_blanks_in_options(pod: dict[str, str]) -> None:
    told = {
        "SPARK_JAVA_OPT_0": "-Da=b c",
        "SPARK_JAVA_OPT_1": "-De=$(id)",
        "SPARK_EXECUTOR_MEMORY": "1g",
        "SPARK_DRIVER_URL": "spark://driver",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "pod",
    }
    said = called({**pod, **told}, "executor")
    assert said[2:7] == ["java", "-Da=b c", "-De=$(id)", "-Xms1g", "-Xmx1g"]
    assert said[said.index("--driver-url") + 1] == "spark://driver"


def test_other_commands_are_run_as_they_are(pod: dict[str, str]) -> None:
    assert called(pod, "echo", "icemirror status") == ["icemirror status"]
