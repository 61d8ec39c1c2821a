"""The Dockerfile's users, installs and copies, and the entry point of Spark's pods."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from icemirror.settings.trigger import EmrServerlessLauncherSettings, KubernetesLauncherSettings
from tests.unit.house.tracked import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
ENTRYPOINT = ROOT / "infra" / "images" / "spark-entrypoint.sh"


def stages() -> dict[str, str]:
    """Return the instructions of each stage by its name, with joined lines."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE).replace("\\\n", " ")
    found = re.split(r"^FROM (\S+) AS (\S+)$", text, flags=re.MULTILINE)
    return dict(zip(found[2::3], found[3::3], strict=True))


FINAL = ("trigger", "function", "job", "job-emr")


@pytest.mark.parametrize("name", FINAL)
def test_image_runs_as_an_unprivileged_user(name: str) -> None:
    *_, user = re.findall(r"^USER (\S+)$", stages()[name], re.MULTILINE)
    if name == "job-emr":
        assert user == "hadoop:hadoop", "EMR requires this user in custom images"
    else:
        assert int(user.partition(":")[0]) >= 10000


@pytest.mark.parametrize("name", FINAL)
def test_image_has_labels_and_a_health_check(name: str) -> None:
    text = stages()[name]
    assert {"title", "description", "licenses"} <= set(
        re.findall(r"org\.opencontainers\.image\.(\w+)=", text)
    )
    assert "HEALTHCHECK" in text
    assert not re.search(r"\b(gcc|build-essential|pip install|curl|wget)\b", text), "belongs in a build stage"


def test_installed_packages_are_locked_by_hash() -> None:
    for line in re.findall(r"pip install ([^&\n]+)", DOCKERFILE):
        ours = line.rstrip(" \\").endswith(".")
        assert ours or "--require-hashes" in line, line
        assert "--no-deps" in line, line
    for lock in re.findall(r"-r (requirements/\S+)", DOCKERFILE):
        assert (ROOT / lock).is_file(), lock


def test_copied_files_exist_and_are_not_ignored() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for line in re.findall(r"^(?:COPY|ADD) (?!--from)(?:--\S+ )?(.+) \S+$", DOCKERFILE, re.MULTILINE):
        for source in line.replace("${DIST}", "dist").split():
            assert (ROOT / source).exists() or source.startswith("dist/"), source
            assert any(
                Path(source).match(pattern) or source.startswith(f"{pattern}/") for pattern in allowed
            ), source


def test_base_images_are_arguments_that_name_a_release() -> None:
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", DOCKERFILE, re.MULTILINE))
    assert defaults.pop("DIST") == "dist"
    assert set(defaults) == {"PYTHON_BASE", "EMR_BASE"}
    for base in defaults.values():
        assert re.search(r"\d+\.\d+", base), base  # EMR has the release in its name


COMMANDS = (ROOT / "docs" / "how-to" / "packaging.md").read_text(encoding="utf-8")
BUILDS = re.findall(r"^docker (?:buildx )?build .+$", COMMANDS, re.MULTILINE)


@pytest.mark.parametrize(
    "command", BUILDS, ids=lambda command: " ".join(re.findall(r"(?:linux/|--target )(\S+)", command))
)
def test_documented_build_names_platform_and_target(command: str) -> None:
    """Docker pushes an index with attestations by default, which Lambda refuses."""
    assert "--provenance=false" in command
    assert re.search(r"--platform linux/(amd64|arm64) ", command)
    target = re.search(r"--target (\S+)", command)
    assert target
    assert target[1] in FINAL


@pytest.mark.parametrize(
    ("platform", "arguments"),
    [("amd64", ""), ("arm64", "--arch arm64 --out dist-arm64")],
    ids=["amd64", "arm64"],
)
def test_emr_image_uses_the_package_of_its_architecture(platform: str, arguments: str) -> None:
    assert {target for build in BUILDS for target in re.findall(r"--target (\S+)", build)} == set(FINAL)
    packaged = f'make package ARGS="{arguments}"\n' if arguments else "make package\n"
    (block,) = [
        block
        for block in re.findall(r"^```sh\n(.*?)^```", COMMANDS, re.MULTILINE | re.DOTALL)
        if f"linux/{platform} " in block and "--target job-emr" in block
    ]
    assert block.startswith(packaged)
    (command,) = [line for line in block.splitlines() if "--target job-emr" in line]
    folder = re.search(r"--build-arg DIST=(\S+)", command)
    out = re.search(r"--out (\S+)", arguments)
    assert (folder and folder[1]) == (out and out[1])
    archive = f"{folder[1] if folder else 'dist'}/icemirror-job.tar.gz"
    assert f"!{archive}" in (ROOT / ".dockerignore").read_text().splitlines()


def test_function_image_and_zip_run_the_same_handler() -> None:
    command = re.search(r'^CMD \["(\S+)"\]$', stages()["function"], re.MULTILINE)
    assert command
    function = (ROOT / "infra" / "terraform" / "modules" / "trigger" / "main.tf").read_text(encoding="utf-8")
    assert f'null : "{command[1]}"' in function


def test_emr_release_is_that_of_terraform_and_has_the_python_of_the_package() -> None:
    """According to AWS' samples, workers of 7.13 run Python 3.11; the image of 7.9 has only 3.9."""
    base = re.search(r"^ARG EMR_BASE=\S+/(emr-7\.(\d+)\.0)$", DOCKERFILE, re.MULTILINE)
    assert base
    variables = (ROOT / "infra" / "terraform" / "variables.tf").read_text(encoding="utf-8")
    assert f'release_label    = optional(string, "{base[1]}")' in variables
    assert int(base[2]) >= 13
    package = (ROOT / "scripts" / "package.py").read_text(encoding="utf-8")
    assert '"--job-python", default="3.11"' in package


def test_job_images_have_the_entry_point_of_the_launcher() -> None:
    expected = str(KubernetesLauncherSettings.model_fields["entry_point"].default).removeprefix("local://")
    for name in ("job", "job-emr"):
        assert f"COPY spark_job/worker/icemirror_job.py {expected}" in stages()[name]


def test_emr_image_has_the_python_of_the_launcher() -> None:
    text, python = stages()["job-emr"], EmrServerlessLauncherSettings.model_fields["python"].default
    environment = str(python).removesuffix("bin/python")
    assert re.search(rf"^ADD \S+/icemirror-job\.tar\.gz {environment}$", text, re.MULTILINE)
    assert set(re.findall(r"PYSPARK_(?:DRIVER_)?PYTHON=(\S+)", text)) == {python}
    maintenance = ROOT / "infra" / "terraform" / "modules" / "maintenance" / "main.tf"
    assert f'"{python}"' in maintenance.read_text(), "maintenance starts jobs without the launcher"


@pytest.fixture
def pod(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which tini and spark-submit print their arguments."""
    for program in (tmp_path / "tini", tmp_path / "bin" / "spark-submit"):
        program.parent.mkdir(exist_ok=True)
        program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        program.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SPARK_HOME": str(tmp_path)}


def run_entrypoint(environ: dict[str, str], *arguments: str) -> list[str]:
    done = subprocess.run(
        [str(ENTRYPOINT), *arguments], env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_driver_submits_its_arguments(pod: dict[str, str]) -> None:
    printed = run_entrypoint(
        {**pod, "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.1"}, "driver", "--class", "a b", "local:///x.py"
    )
    assert printed[:2] == ["-s", "--"]
    assert printed[2].endswith("/bin/spark-submit")
    assert "spark.driver.bindAddress=10.0.0.1" in printed
    assert printed[-3:] == ["--class", "a b", "local:///x.py"]


def test_executor_gets_driver_url_and_java_options_with_spaces(pod: dict[str, str]) -> None:
    variables = {
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
    printed = run_entrypoint({**pod, **variables}, "executor")
    assert printed[2:7] == ["java", "-Da=b c", "-De=$(id)", "-Xms1g", "-Xmx1g"]
    assert printed[printed.index("--driver-url") + 1] == "spark://driver"


def test_other_commands_run_unchanged(pod: dict[str, str]) -> None:
    assert run_entrypoint(pod, "echo", "icemirror status") == ["icemirror status"]
