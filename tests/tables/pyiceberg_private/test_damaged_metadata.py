"""A damaged metadata file is an error with file and table; other tables are not affected."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.io import InputFile, InputStream
from pyiceberg.io.pyarrow import PyArrowFileIO

from icemirror.cli.main import run
from icemirror.config_file.load import load_settings
from icemirror.errors import Corrupt, Transient
from spark_job.iceberg.catalogs import Catalogs
from spark_job.pyiceberg_private.damaged_metadata import read_metadata
from tests.lab.lab import Lab, local_path
from tests.lab.mirrored_world import write_config
from tests.lab.samples import SCHEMA


def write_metadata_file(tmp_path: Path) -> Path:
    """Create a table. Return the path of its metadata file."""
    catalogs = Catalogs(load_settings(write_config(tmp_path), os.environ))
    catalogs.get(None).create_namespace("lab")
    return local_path(catalogs.get(None).create_table("lab.world", SCHEMA).metadata_location)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (lambda original: original[:50], r"Invalid JSON.*\(50 bytes\)"),
        (lambda original: b"", "it is empty"),
        (lambda original: b"\xff\xfe\x00" + original, "it is not UTF-8"),
        (lambda original: original.replace(b'"format-version":2', b'"format-version":9'), "format_version"),
        (lambda original: b"[1, 2]", "TableMetadata"),
    ],
    ids=["truncated", "empty", "not UTF-8", "unknown version", "other JSON"],
)
def test_error_for_damaged_metadata_contains_table_and_file(
    tmp_path: Path, content: Callable[[bytes], bytes], words: str
) -> None:
    path = write_metadata_file(tmp_path)
    path.write_bytes(content(path.read_bytes()))
    settings = load_settings(write_config(tmp_path), os.environ)
    with pytest.raises(Corrupt, match=rf"^lab\.world: the metadata file is damaged: .*{words}.*{path.name}$"):
        Catalogs(settings).load_mirror(settings.tables[0])


def test_truncated_compressed_file_is_corrupt(tmp_path: Path) -> None:
    packed = tmp_path / "v1.gz.metadata.json"
    packed.write_bytes(gzip.compress(write_metadata_file(tmp_path).read_bytes())[:100])
    with pytest.raises(Corrupt, match="cannot be decompressed"):
        read_metadata(PyArrowFileIO().new_input(str(packed)))


class PartialReads(InputFile):
    """Returns half of the file for the first reads."""

    def __init__(self, path: Path, times: int) -> None:
        super().__init__(str(path))
        self.path, self.times = path, times

    def __len__(self) -> int:
        return self.path.stat().st_size

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> InputStream:
        """Open the file, or its first half."""
        self.times -= 1
        content = self.path.read_bytes()
        return io.BytesIO(content[: len(content) // 2] if self.times >= 0 else content)


def test_partial_read_is_retried_once_and_then_transient(tmp_path: Path) -> None:
    path = write_metadata_file(tmp_path)
    assert read_metadata(PartialReads(path, 1)).location
    with pytest.raises(Transient, match=r"storage returned \d+ of \d+ bytes"):
        read_metadata(PartialReads(path, 3))


@pytest.fixture
def two_tables(tmp_path: Path) -> Path:
    """The configuration of two tables; one mirror has damaged metadata."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    Lab.make(tmp_path / "a").commit_events("I1@10")
    lab = Lab.make(tmp_path / "b")
    lab.commit_events("I1@10")
    lab.merge()
    path = local_path(lab.mirror.metadata_location)
    path.write_bytes(path.read_bytes()[:50])
    config = tmp_path / "two.yaml"
    catalog = "{{type: sql, uri: 'sqlite:///{0}/catalog.db', warehouse: 'file://{0}/wh'}}"
    config.write_text(
        f"iceberg: {{catalog: {catalog.format(tmp_path / 'b')}, catalogs: {{a: {catalog.format(tmp_path / 'a')}}}}}\n"
        "tables:\n"
        "  - {changelog: lab.world_changelog, mirror: lab.world, primary_keys: [id]}\n"
        "  - {changelog: lab.world_changelog, mirror: lab.other, primary_keys: [id], "
        "changelog_catalog: a, mirror_catalog: a}\n"
        f"trigger: {{state: {{type: sqlite, path: '{tmp_path}/state.db'}}}}\n"
        "telemetry: {prometheus: null, log_format: text}\n"
    )
    return config


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["plan"], 3),
        (["status"], 0),
        (["maintain"], 3),
        (["verify", "-t", "lab.world"], 3),
        (["inspect-index", "-t", "lab.world"], 3),
        (["explain-key", "-t", "lab.world", "--key", "1"], 3),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_commands_report_the_damage_and_continue_with_other_tables(
    two_tables: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], code: int
) -> None:
    assert run([*arguments, "-c", str(two_tables)]) == code
    shown = capfd.readouterr()
    assert "lab.world: the metadata file" in shown.err + shown.out
    assert "not expected" not in shown.err
    if len(arguments) == 1:
        assert "lab.other" in shown.err + shown.out


@pytest.mark.parametrize("damaged", ["mirror", "changelog"])
def test_merge_with_damaged_metadata_is_corrupt(tmp_path: Path, damaged: str) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@10")
    lab.merge()
    lab.commit_events("I2@20")
    location = (lab.mirror if damaged == "mirror" else lab.changelog.refresh()).metadata_location
    local_path(location).write_bytes(b'{"format-version":2')
    error = lab.try_merge().error
    assert error is not None
    assert (error.kind, error.message.split(":")[0]) == (
        "corrupt",
        "lab.world" if damaged == "mirror" else "lab.world_changelog",
    )
