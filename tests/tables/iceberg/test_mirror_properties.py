"""Properties of a mirror that control how and where files are written, as users set them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.avro.codecs import KNOWN_CODECS

from icemirror.errors import Invalid, Kind
from icemirror.tables.mirror_properties import AVRO_CODECS
from spark_job.iceberg import write_properties
from spark_job.iceberg.write_properties import read_avro_codec
from spark_job.maintenance.expire import expire
from spark_job.storage.file_cache import clear_file_caches
from tests.lab.lab import Lab, local_path

CODEC = "write.avro.compression-codec"
WRONG = [
    (CODEC, "lz4", "gzip, zstd, uncompressed"),
    ("write.data.path", "abc", "an absolute path"),
    ("write.metadata.path", "abc/def", "an absolute path"),
    ("write.data.path", "file:abc", "an absolute path"),
    ("write.object-storage.enabled", "abc", "write.object-storage.enabled"),
    ("write.py-location-provider.impl", "nowhere.Provider", "nowhere.Provider"),
]


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which the job runs."""
    folder = tmp_path / "working"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def set_property(lab: Lab, name: str, value: str) -> None:
    """Set a property without validation, as another engine may."""
    path = local_path(lab.mirror.metadata_location)
    metadata = json.loads(path.read_text())
    metadata["properties"][name] = value
    path.write_text(json.dumps(metadata))
    clear_file_caches()


def with_unvalidated_properties(lab: Lab, properties: dict[str, str]) -> Lab:
    """Set table_properties that the validation of a configuration file would refuse."""
    table = lab.table.model_copy(update={"table_properties": properties})
    settings = lab.settings.model_copy(update={"tables": (table,)})
    return replace(lab, settings=settings, pipeline=replace(lab.pipeline, settings=settings))


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("gzip", b"deflate"),
        ("GZIP", b"deflate"),
        ("", b"deflate"),
        ("ZSTD", b"zstandard"),
        ("zstandard", b"zstandard"),
        ("bzip2", b"bzip2"),
        ("uncompressed", b"null"),
        ("none", b"null"),
        ("null", b"null"),
    ],
)
def test_manifest_codec_may_have_its_iceberg_or_avro_name(tmp_path: Path, name: str, codec: bytes) -> None:
    lab = Lab.make(tmp_path, options=f'table_properties: {{{CODEC}: "{name}"}}')
    for number in (1, 2):
        lab.commit_events(f"U1@{number} I{number + 1}@{number}")
        lab.merge()
    head = lab.mirror.current_snapshot()
    assert head is not None
    header = b"avro.codec" + bytes([2 * len(codec)]) + codec
    for path in (head.manifest_list, *(manifest.manifest_path for manifest in head.manifests(lab.mirror.io))):
        assert header in local_path(path).read_bytes()
    assert lab.rows() == {1: "U1@2", 2: "I2@1", 3: "I3@2"}


def test_every_codec_name_is_known_and_snappy_requires_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(write_properties, "find_spec", lambda name: name)
    assert {read_avro_codec({CODEC: name}) for name in AVRO_CODECS} == set(KNOWN_CODECS)
    monkeypatch.setattr(write_properties, "find_spec", lambda _: None)
    with pytest.raises(Invalid, match="python-snappy"):
        read_avro_codec({CODEC: "Snappy"})


@pytest.mark.parametrize(("name", "value", "message"), WRONG)
def test_invalid_property_is_refused_before_the_mirror_is_created(
    tmp_path: Path, working_folder: Path, name: str, value: str, message: str
) -> None:
    lab = with_unvalidated_properties(Lab.make(tmp_path), {name: value})
    lab.commit_events("I1@1")
    error = lab.try_merge().error
    assert error is not None
    assert (error.kind, message in error.message) == (Kind.INVALID, True), error.message
    assert value in error.message
    assert not lab.catalog.table_exists("lab.world")
    assert list(working_folder.iterdir()) == []


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("name", "value", "message"), WRONG)
def test_invalid_property_that_was_set_later_is_refused_and_leaves_no_file(
    tmp_path: Path, working_folder: Path, name: str, value: str, message: str, version: int
) -> None:
    lab = Lab.make(tmp_path, options=f"format_version: {version}")
    lab.commit_events("I1@1 I2@2")
    lab.merge()
    set_property(lab, name, value)
    before = lab.files_on_disk()
    lab.commit_events("U1@3 D2@4 I3@4")
    error = lab.reconfigure().try_merge().error
    assert error is not None
    assert (error.kind, message in error.message) == (Kind.INVALID, True), error.message
    assert lab.files_on_disk() == before
    assert list(working_folder.iterdir()) == []


def test_expire_writes_no_metadata_file_into_the_working_folder(lab: Lab, working_folder: Path) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    set_property(lab, "write.metadata.path", "abc")
    with pytest.raises(Invalid, match="an absolute path"):
        expire(lab.mirror, "lab.world")
    assert list(working_folder.iterdir()) == []
