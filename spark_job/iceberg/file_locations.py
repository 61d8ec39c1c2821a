"""Where the next files of a table go, by its properties."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.table.locations import LocationProvider, load_location_provider

from icemirror.errors import Invalid
from icemirror.mirror_properties import A_PATH, PATHS, is_whole_path
from spark_job.iceberg.write_properties import refuse


def file_locations(location: str, properties: Mapping[str, str]) -> LocationProvider:
    """PyIceberg's provider, where it can be told by the properties; refuses those that lead into the job's folder."""
    for name in PATHS:
        path = properties.get(name)
        if path and not is_whole_path(path):
            raise refuse(name, path, A_PATH)
    try:
        return load_location_provider(location, dict(properties))
    except (ValueError, AttributeError) as error:  # of flags, and of a provider's class
        raise Invalid(
            f"where files go cannot be told by the table's properties: {error}. Correct them under table_properties, "
            "and in the mirror if it exists."
        ) from error
