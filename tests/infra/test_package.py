"""`make package`: the packages for Lambda and EMR are small, reproducible, and run."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import platform
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from tests.processes.house.light_imports import import_all, light_modules
from tests.support.need import do_without
from tests.unit.house.tracked import ROOT

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
ARCHITECTURE = {"x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine()]
COMMAND_LINE = ("click", "rich")


@pytest.fixture(scope="module")
def packaging() -> ModuleType:
    spec = importlib.util.spec_from_file_location("package_script", ROOT / "scripts" / "package.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses require it
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the function's zip for this machine."""
    if sys.platform != "linux":
        do_without("packages are for Linux and run only there")
    out = tmp_path_factory.mktemp("dist")
    options = ["--only", "trigger", "--out", str(out), "--python", PYTHON, "--arch", ARCHITECTURE]
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "package.py"), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 and "Failed to fetch" in done.stderr:
        do_without(f"packages cannot be downloaded: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
    assert "icemirror-trigger.zip  (at most 40 MB)" in done.stdout
    return out


def test_function_runs_from_its_zip_alone(dist: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(dist / "icemirror-trigger.zip") as package:
        names = package.namelist()
        package.extractall(tmp_path)  # noqa: S202 (built by this test)
    absent = ("spark_job/", "pyspark/", "pyarrow/", "bin/", *(f"{name}/" for name in COMMAND_LINE))
    assert [name for name in names if name.startswith(absent)] == []
    code = "import sys; sys.path[:0] = sys.argv[1:]; import boto3, trigger.handler as it; print(it.__file__)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "trigger" / "handler.py")


def test_trigger_imports_neither_click_nor_rich() -> None:
    """Checks all modules, because the handler imports some of them lazily."""
    assert import_all(light_modules(), None, COMMAND_LINE) == {}


def lambda_requirements() -> set[str]:
    lines = (ROOT / "requirements" / "lambda.in").read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def test_lambda_requirements_equal_those_of_the_project_without_the_command_line() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    base = {
        requirement for requirement in project["dependencies"] if not requirement.startswith(COMMAND_LINE)
    }
    assert lambda_requirements() == base | set(project["optional-dependencies"]["aws"])


@pytest.mark.parametrize("lock", ["lambda.txt", "lambda-image.txt"])
def test_lambda_locks_have_no_command_line(lock: str) -> None:
    text = (ROOT / "requirements" / lock).read_text(encoding="utf-8")
    locked = set(re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE))
    assert {"boto3", "pydantic", "pyyaml"} <= locked
    assert not locked & set(COMMAND_LINE)


def test_bill_and_checksums_describe_the_zip(dist: Path) -> None:
    bill = json.loads((dist / "icemirror-trigger.cdx.json").read_text())
    assert {"boto3", "pydantic", "PyYAML"} <= {component["name"] for component in bill["components"]}
    assert all(component["purl"].startswith("pkg:pypi/") for component in bill["components"])
    digest = hashlib.sha256((dist / "icemirror-trigger.zip").read_bytes()).hexdigest()
    assert bill["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": digest}]
    assert f"{digest}  icemirror-trigger.zip\n" in (dist / "SHA256SUMS").read_text()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder with a few installed files."""
    folder = tmp_path / "site"
    for name in ("b.py", "a/__init__.py", "a/__pycache__/x.pyc", "bin/tool", "c-1.0.dist-info/RECORD"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("VALUE = 7\n")
    (folder / "c-1.0.dist-info" / "METADATA").write_text("Name: C_x\nVersion: 1.0\nLicense: MIT\n")
    return folder


def test_same_files_give_the_same_bytes(packaging: ModuleType, site: Path, tmp_path: Path) -> None:
    built = []
    for attempt in range(2):
        for file in site.rglob("*"):
            file.touch()
        zipped, packed = tmp_path / f"{attempt}.zip", tmp_path / f"{attempt}.tar.gz"
        packaging.write_zip(site, zipped)
        packaging.write_environment(site, packed, PYTHON, "/usr/bin")
        built.append((zipped.read_bytes(), packed.read_bytes()))
    assert built[0] == built[1]
    with zipfile.ZipFile(tmp_path / "0.zip") as package:
        assert package.namelist() == ["a/__init__.py", "b.py", "c-1.0.dist-info/METADATA"]


def test_unpacked_environment_imports_its_own_packages(
    packaging: ModuleType, site: Path, tmp_path: Path
) -> None:
    base = Path(sys.base_prefix) / "bin"
    packaging.write_environment(site, tmp_path / "e.tar.gz", PYTHON, str(base))
    with tarfile.open(tmp_path / "e.tar.gz") as archive:
        archive.extractall(tmp_path / "environment", filter="fully_trusted")  # noqa: S202 (built by this test)
    code = "import b, sys; print(b.VALUE, sys.prefix)"
    done = subprocess.run(
        [tmp_path / "environment" / "bin" / "python", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["7", str(tmp_path / "environment")]


def test_bill_normalizes_package_names(packaging: ModuleType, site: Path, tmp_path: Path) -> None:
    package = tmp_path / "p.zip"
    packaging.write_zip(site, package)
    (component,) = json.loads(packaging.bill_of_materials(site, package, "1.0"))["components"]
    assert component["purl"] == "pkg:pypi/c-x@1.0"
    assert component["licenses"] == [{"license": {"name": "MIT"}}]


def test_job_package_omits_only_locked_packages(packaging: ModuleType) -> None:
    lock = (ROOT / "requirements" / "job.txt").read_text()
    assert all(f"\n{name}==" in lock for name in packaging.PROVIDED_BY_EMR)
