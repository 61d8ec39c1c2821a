"""Keeps table properties from choosing code to run, or hosts that receive the catalog's credentials.

PyIceberg creates a table's FileIO from the catalog's properties, overridden by the table's properties. A user who may
alter a changelog could thus choose a module to import (`py-io-impl`), or a host that receives the catalog's token
(`gcs.service.host`, `s3.endpoint`). Upstream: apache/iceberg-python#3931.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Final

from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO
from pyiceberg.table import StagedTable, Table, TableProperties

from icemirror.errors import Invalid
from icemirror.settings.table_options import TableOptions

LOCATION_PROVIDER: Final = TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL


def ignore_table_properties(catalog: Catalog, trusted: Set[str]) -> None:
    """Patch a catalog so that it ignores table properties when it creates a FileIO.

    `config` and credentials in a REST catalog's response still apply. A commit fails if the table's property names a
    location provider that is not in `trusted`.
    """
    private: Any = catalog  # Any: the attributes are private
    if hasattr(catalog, "_response_to_table"):
        original_to_table = private._response_to_table

        def to_table(identifier: tuple[str, ...], response: Any) -> Table:  # noqa: ANN401 (REST's TableResponse)
            metadata = response.metadata
            bare_metadata = metadata.model_copy(update={"properties": {}})
            table: Table = original_to_table(
                identifier, response.model_copy(update={"metadata": bare_metadata})
            )
            table.metadata = metadata
            return table

        private._response_to_table = to_table
        return
    original_load_file_io = private._load_file_io

    def load_file_io(properties: object = None, location: str | None = None) -> FileIO:
        """Return a FileIO. `properties` are the table's: ignored on purpose."""
        io: FileIO = original_load_file_io(location=location)
        return io

    private._load_file_io = load_file_io
    if hasattr(catalog, "_update_and_stage_table"):
        original_stage = private._update_and_stage_table

        def update_and_stage(current: Table | None, *arguments: Any) -> StagedTable:  # noqa: ANN401 (passed on)
            if current is not None:
                require_trusted_location_provider(current, trusted)
            staged: StagedTable = original_stage(current, *arguments)
            return staged

        private._update_and_stage_table = update_and_stage


def configured_location_provider(settings: TableOptions) -> Set[str]:
    """Return the location provider in the configuration of a mirror: a set with one class name, or an empty set."""
    provider = settings.table_properties.get(LOCATION_PROVIDER)
    return {provider} if provider else set()


def require_trusted_location_provider(table: Table, trusted: Set[str]) -> None:
    """Raise `Invalid` if the table's properties name a location provider that the configuration does not name."""
    provider = table.metadata.properties.get(LOCATION_PROVIDER)
    if provider and provider not in trusted:
        raise Invalid(
            f"{'.'.join(table.name())}: its property {LOCATION_PROVIDER} is {provider!r}, code that icemirror would "
            "run. Remove the property from the mirror, or set it to the same value under table_properties if you trust "
            "that code."
        )
