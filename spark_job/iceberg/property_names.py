"""Names of the table properties and snapshot summary entries that icemirror writes (`icemirror.*`)."""

# In the summary of every snapshot that icemirror commits:
PROPERTY_VERSION = "icemirror.version"
PROPERTY_RUN_ID = "icemirror.run-id"
PROPERTY_EPOCH = "icemirror.epoch"
PROPERTY_LIVE_ROWS = "icemirror.live-rows"
PROPERTY_REJECTED = "icemirror.rejected"
PROPERTY_REPLAY = "icemirror.replay"  # id of the request that a snapshot belongs to

# In the summary, and in the table's properties, because the snapshot may expire:
PROPERTY_CURSOR = "icemirror.cursor"
PROPERTY_INDEX_ROOT = "icemirror.index-root"

# In the properties of a mirror:
PROPERTY_FIELD_MAP = "icemirror.field-map"
PROPERTY_SOURCE = "icemirror.source"  # the changelog, and its uuid
PROPERTY_SOURCE_SCHEMA = "icemirror.source-schema"
PROPERTY_REBUILDS = "icemirror.rebuilds"  # request ids of the last rebuilds
PROPERTY_FORMER_SOURCES = "icemirror.former-sources"  # uuids of changelogs that were followed earlier

# In the properties of a rejects table:
PROPERTY_REJECTS_OF = "icemirror.rejects-of"  # the mirror, and the changelog's uuid
