"""The manifests that a commit merges, over thousands of commits."""

from __future__ import annotations

from pyiceberg.manifest import ManifestFile

from spark_job.commit.choose_manifests import choose_manifests_to_merge, group_manifests, live_entries


def manifest_with(entries: int, name: str) -> ManifestFile:
    return ManifestFile.from_args(manifest_path=name, added_files_count=1, existing_files_count=entries - 1)


def test_manifests_stay_few_and_each_entry_is_rewritten_few_times() -> None:
    found: list[ManifestFile] = []
    written = 0
    for number in range(10_000):
        due = choose_manifests_to_merge(found, 30)
        found = [manifest for manifest in found if manifest not in due]
        if due:
            entries = sum(map(live_entries, due))
            found.append(manifest_with(entries, f"merged-{number}"))
            written += entries
        found.insert(0, manifest_with(1, str(number)))
        assert len(found) <= 30
    assert written <= 3 * 10_000


def test_few_manifests_are_not_merged() -> None:
    assert choose_manifests_to_merge([manifest_with(1, str(number)) for number in range(29)], 30) == set()


def test_large_manifest_is_merged_only_with_an_equal_number_of_other_entries() -> None:
    small = [manifest_with(1, str(number)) for number in range(29)]
    large = manifest_with(30, "large")
    assert choose_manifests_to_merge([*small, large], 30) == set(small)
    assert choose_manifests_to_merge([*small, manifest_with(1, "one more"), large], 30) == {
        *small,
        manifest_with(1, "one more"),
        large,
    }


def test_neighbours_are_grouped_up_to_the_limit() -> None:
    sizes = [3, 3, 4, 1, 20, 5, 5, 1]
    manifests = [manifest_with(entries, str(number)) for number, entries in enumerate(sizes)]
    found = [[live_entries(manifest) for manifest in group] for group in group_manifests(manifests, 10)]
    assert found == [[3, 3, 4], [1], [20], [5, 5], [1]]
    assert group_manifests([], 10) == []
