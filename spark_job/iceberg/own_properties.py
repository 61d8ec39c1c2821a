"""What a table's properties may not decide: which code runs, and where the catalog's credentials go.

PyIceberg makes the file access of a table from the catalog's properties with the table's own over them. Whoever may
alter a changelog could so name a module to import (`py-io-impl`), or a host to send the catalog's token to
(`gcs.service.host`, `s3.endpoint`).
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Final

from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO
from pyiceberg.table import StagedTable, Table, TableProperties

from icemirror.errors import Invalid
from icemirror.settings.table_options import TableOptions

LOCATION_CODE: Final = TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL


def distrust_tables(catalog: Catalog, trusted: Set[str]) -> None:
    """From now on the catalog makes file access without the properties of tables.

    What a REST catalog answers beside them, `config` and credentials, is still followed. No commit goes to a place that
    code chooses which is not among `trusted`.
    """
    seams: Any = catalog  # Any: these are no part of the public interface
    if hasattr(catalog, "_response_to_table"):
        respond = seams._response_to_table

        def to_table(identifier: tuple[str, ...], response: Any) -> Table:  # noqa: ANN401 (REST's TableResponse)
            metadata = response.metadata
            bare = metadata.model_copy(update={"properties": {}})
            table: Table = respond(identifier, response.model_copy(update={"metadata": bare}))
            table.metadata = metadata
            return table

        seams._response_to_table = to_table
        return
    load = seams._load_file_io

    def load_file_io(properties: object = None, location: str | None = None) -> FileIO:
        io: FileIO = load(location=location)
        return io

    seams._load_file_io = load_file_io
    if hasattr(catalog, "_update_and_stage_table"):
        stage = seams._update_and_stage_table

        def update_and_stage(current: Table | None, *rest: Any) -> StagedTable:  # noqa: ANN401 (passed on)
            if current is not None:
                require_known_code(current, trusted)
            staged: StagedTable = stage(current, *rest)
            return staged

        seams._update_and_stage_table = update_and_stage


def named_code(settings: TableOptions) -> Set[str]:
    """The code for the places of files that the configuration of a mirror names."""
    code = settings.table_properties.get(LOCATION_CODE)
    return {code} if code else set()


def require_known_code(table: Table, trusted: Set[str]) -> None:
    """Refuses a mirror whose properties name code for the places of its files that the configuration does not name."""
    code = table.metadata.properties.get(LOCATION_CODE)
    if code and code not in trusted:
        raise Invalid(
            f"{'.'.join(table.name())}: its property {LOCATION_CODE} is {code!r}, code that icemirror would run. "
            "Remove the property from the mirror, or set it to the same under table_properties if you trust that code."
        )
