"""`make package`: the Lambda function's zip and the job's bundle for EMR Serverless, with their parts listed.

    icemirror-trigger.zip        the function `trigger.handler.handler`
    icemirror-job.tar.gz         a Python environment for `spark.archives`, without Spark, which EMR has
    icemirror_job.py             what spark-submit is given
    *.cdx.json                   what is in the two, as CycloneDX
    SHA256SUMS                   of all of these

The same tree and the same locks give the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

ROOT = Path(__file__).resolve().parents[1]
PLATFORMS = {"x86_64": "x86_64-manylinux_2_28", "arm64": "aarch64-manylinux_2_28"}
MOST_BYTES = {"icemirror-trigger.zip": 40 << 20, "icemirror-job.tar.gz": 250 << 20}
OF_EMR = ("pyspark", "py4j")
# Made anew by every installer, or of use to none: bytes that differ from machine to machine.
_LEFT_OUT = re.compile(
    r"(^|/)(__pycache__|bin|\.lock)(/|$)|\.pyc$|\.dist-info/(RECORD|INSTALLER|REQUESTED|direct_url\.json)$"
)
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Target:
    """What a package is for: processors, and the Python that runs it."""

    architecture: str
    python: str


def install(lock: Path, into: Path, target: Target, without: Sequence[str] = ()) -> None:
    """The locked packages for another machine, as wheels, by hash."""
    entries = re.split(r"\n(?=[A-Za-z0-9])", lock.read_text(encoding="utf-8"))
    wanted = [entry for entry in entries if re.split(r"[=\[]", entry, maxsplit=1)[0] not in without]
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as chosen:
        chosen.write("\n".join(wanted))
        chosen.flush()
        options = [
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--only-binary",
            ":all:",
            "--link-mode",
            "copy",
        ]
        options += ["--python-platform", PLATFORMS[target.architecture], "--python-version", target.python]
        uv = Path(sys.executable).with_name("uv")
        subprocess.run([uv, "pip", "install", *options, "--target", into, "-r", chosen.name], check=True)


def add_ours(into: Path, packages: Sequence[str]) -> None:
    """Our own packages, as they are in the tree."""
    for package in packages:
        shutil.copytree(ROOT / package, into / package, ignore=shutil.ignore_patterns("__pycache__"))


def contents(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files that belong into a package, in an order that does not change."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not _LEFT_OUT.search(name):
            yield name, path


def write_zip(folder: Path, to: Path) -> None:
    """A zip that is the same for the same files."""
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as package:
        for name, path in contents(folder):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            package.writestr(entry, path.read_bytes())


def write_environment(site: Path, to: Path, python: str, home: str) -> None:
    """A virtual environment as an archive: packages, and a link to the Python of the machine that unpacks it."""
    config = f"home = {home}\ninclude-system-site-packages = false\n".encode()
    packages = f"lib/python{python}/site-packages"
    with (
        to.open("wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        _add(archive, "pyvenv.cfg", config)
        for name in ("python", "python3", f"python{python}"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, f"{home}/python{python}"
            archive.addfile(link)
        for name, path in contents(site):
            _add(archive, f"{packages}/{name}", path.read_bytes())


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o644
    archive.addfile(entry, io.BytesIO(data))


def bill_of_materials(site: Path, package: Path, version: str) -> str:
    """What is in a package, as CycloneDX."""
    components = []
    for metadata in sorted(site.glob("*.dist-info/METADATA")):
        said = HeaderParser().parsestr(metadata.read_text(encoding="utf-8"))
        name, found = said["Name"], said["Version"]
        component = {
            "type": "library",
            "name": name,
            "version": found,
            "purl": f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{found}",
        }
        licence = said["License-Expression"] or said["License"]
        if licence and len(licence) < 80:
            component["licenses"] = [{"license": {"name": licence}}]  # type: ignore[assignment]
        components.append(component)
    digest = sha256(package)
    described = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": package.name,
                "version": version,
                "hashes": [{"alg": "SHA-256", "content": digest}],
            }
        },
        "components": components,
    }
    return json.dumps(described, indent=2) + "\n"


def sha256(path: Path) -> str:
    """The digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def package_trigger(out: Path, scratch: Path, target: Target, version: str) -> list[Path]:
    """The function's zip and its bill."""
    install(ROOT / "requirements" / "lambda.txt", scratch, target)
    zipped = out / "icemirror-trigger.zip"
    bill = out / "icemirror-trigger.cdx.json"
    add_ours(scratch, ("icemirror", "trigger"))
    write_zip(scratch, zipped)
    bill.write_text(bill_of_materials(scratch, zipped, version), encoding="utf-8")
    return [zipped, bill]


def package_job(out: Path, scratch: Path, target: Target, version: str, home: str) -> list[Path]:
    """The job's environment, its entry point and its bill."""
    install(ROOT / "requirements" / "job.txt", scratch, target, without=OF_EMR)
    archive, bill, entry = (
        out / "icemirror-job.tar.gz",
        out / "icemirror-job.cdx.json",
        out / "icemirror_job.py",
    )
    add_ours(scratch, ("icemirror", "spark_job"))
    write_environment(scratch, archive, target.python, home)
    bill.write_text(bill_of_materials(scratch, archive, version), encoding="utf-8")
    shutil.copyfile(ROOT / "spark_job" / "submit" / "icemirror_job.py", entry)
    return [archive, bill, entry]


def main() -> int:
    """Builds what was asked for, says how large it is, and fails where it is too large."""
    parser = argparse.ArgumentParser(prog="make package", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--arch", choices=PLATFORMS, default="x86_64", help="processors of Lambda and EMR")
    parser.add_argument("--python", default="3.12", help="Python of the function's runtime")
    parser.add_argument("--job-python", default="3.11", help="Python of the EMR release")
    parser.add_argument("--job-python-home", default="/usr/bin", help="where that one is")
    parser.add_argument("--only", choices=("trigger", "job"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    version = re.search(r'__version__ = "(.+)"', (ROOT / "icemirror" / "__init__.py").read_text())[1]  # type: ignore[index]
    made: list[Path] = []
    with tempfile.TemporaryDirectory() as scratch:
        if given.only != "job":
            made += package_trigger(given.out, Path(scratch, "t"), Target(given.arch, given.python), version)
        if given.only != "trigger":
            target = Target(given.arch, given.job_python)
            made += package_job(given.out, Path(scratch, "j"), target, version, given.job_python_home)
    sums = "".join(f"{sha256(path)}  {path.name}\n" for path in made)
    (given.out / "SHA256SUMS").write_text(sums, encoding="utf-8")
    too_large = False
    for path in made:
        size, most = path.stat().st_size, MOST_BYTES.get(path.name)
        too_large |= most is not None and size > most
        allowed = "" if most is None else f"  (at most {most >> 20} MB)"
        print(f"{size / (1 << 20):8.1f} MB  {path.name}{allowed}")
    return 1 if too_large else 0


if __name__ == "__main__":
    sys.exit(main())
