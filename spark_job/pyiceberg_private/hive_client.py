"""A Hive Metastore client with failover, calls that Hive 4 supports, and fenced commits.

PyIceberg's client uses only the first address, and calls that Hive 4 has removed (apache/iceberg-python#1222). Its
commits rely on a lock (#3121). A metastore revokes a lock after some minutes without a heartbeat, and other engines may
be configured not to take it. So a commit also states the metadata that it replaces (HIVE-26882).
"""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Any

from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import (
    CheckLockRequest,
    ClientCapabilities,
    ClientCapability,
    EnvironmentContext,
    GetTableRequest,
    GetTablesRequest,
    InvalidOperationException,
    LockRequest,
    LockResponse,
    LockState,
    MetaException,
    NoSuchLockException,
    SkewedInfo,
    Table,
    UnlockRequest,
)
from pyiceberg.catalog import METADATA_LOCATION, PREVIOUS_METADATA_LOCATION, URI, Catalog
from pyiceberg.catalog.hive import HIVE_PRIMITIVE_TYPES, _HiveClient
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.types import PrimitiveType, TimestampNanoType, TimestamptzNanoType
from thrift.Thrift import TApplicationException, TException, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from icemirror.catalogs.hive_address import parse_metastores, requires_kerberos
from icemirror.errors import Invalid

_TIMEOUT_MS = 120_000
_CLIENT_CAPABILITIES = ClientCapabilities(values=[ClientCapability.INSERT_ONLY_TABLES])
# Hive 4 compares and alters atomically (HIVE-26882). Older versions ignore these keys.
_EXPECTED_KEY, _EXPECTED_VALUE = "expected_parameter_key", "expected_parameter_value"
# Types that PyIceberg cannot translate to Hive. Hive only displays them: readers use Iceberg's schema.
_HIVE_TYPES: dict[type[PrimitiveType], str] = {
    TimestampNanoType: "timestamp",
    TimestamptzNanoType: "timestamp with local time zone",
}
_CONFLICT_TEXT = "The table has been modified"


def install_metastore_client(catalog: Catalog) -> None:
    """Patch a Hive catalog to use this module's client."""
    private: Any = catalog  # Any: the attribute is private
    private._client = MetastoreClient(catalog.properties)
    for iceberg_type, hive_type in _HIVE_TYPES.items():
        HIVE_PRIMITIVE_TYPES.setdefault(iceberg_type, hive_type)
    SkewedInfo.read = _skip_struct
    for thrift_exception in TException.__subclasses__():
        if thrift_exception.__module__ == MetaException.__module__:
            # Thrift generates immutable exceptions, but a context manager must set `__traceback__` on the way out.
            thrift_exception.__setattr__ = BaseException.__setattr__


def _skip_struct(_: SkewedInfo, protocol: Any) -> None:  # noqa: ANN401 (thrift has no types)
    """Skip the struct: it has a map with lists as keys, which a dict cannot hold. Nothing here needs it."""
    protocol.skip(TType.STRUCT)


class MetastoreClient:
    """Opens a connection for a `with` block: to the metastore that answered last, or else to the next one."""

    def __init__(self, properties: dict[str, str]) -> None:
        uris = properties[URI].split(",")
        self._metastores = [_Metastore(uri.strip(), properties) for uri in uris]

    def __enter__(self) -> Client:
        """Return a client of the first metastore that accepts a connection."""
        failures: list[Exception] = []
        for metastore in list(self._metastores):
            try:
                opened: Client = metastore.__enter__()
            except (TException, OSError) as error:
                metastore.__exit__(None, None, None)
                failures.append(error)
                continue
            self._metastores.remove(metastore)
            self._metastores.insert(0, metastore)
            return _Client(opened, self)
        raise failures[0]

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self._metastores[0].__exit__(error_type, error, trace)


class _Metastore(_HiveClient):
    """One metastore, with a timeout, and with the user's groups passed as groups."""

    def __init__(self, uri: str, properties: dict[str, str]) -> None:
        service = properties.get("hive.kerberos-service-name", "hive")
        super().__init__(uri, properties.get("ugi"), requires_kerberos(properties), service)

    def _init_thrift_transport(self) -> Any:  # noqa: ANN401 (thrift has no types)
        addresses = parse_metastores(self._uri)
        if self._kerberos_auth or not addresses:
            return super()._init_thrift_transport()
        socket = TSocket(*addresses[0])
        socket.setTimeout(_TIMEOUT_MS)
        return TBufferedTransport(socket)

    def _client(self) -> Client:
        ugi, self._ugi = self._ugi, None
        client = super()._client()
        self._ugi = ugi
        if ugi:
            client.set_ugi(ugi[0], ugi[1:])
        return client


class _Client(Client):  # type: ignore[misc]
    """The client of one connection."""

    def __init__(self, opened: Client, metastore_client: MetastoreClient) -> None:
        super().__init__(opened._iprot)
        self._metastore_client = metastore_client
        self._lock_id: int | None = None

    def get_table(self, dbname: str, tbl_name: str) -> Table:
        """Return a table."""
        try:
            return self.get_table_req(GetTableRequest(dbname, tbl_name, _CLIENT_CAPABILITIES)).table
        except TApplicationException as error:
            if error.type != TApplicationException.UNKNOWN_METHOD:
                raise
        return super().get_table(dbname, tbl_name)

    def get_table_objects_by_name(self, dbname: str, tbl_names: list[str]) -> list[Table]:
        """Return those of the tables that exist."""
        try:
            tables: list[Table] = self.get_table_objects_by_name_req(
                GetTablesRequest(dbname, tbl_names, _CLIENT_CAPABILITIES)
            ).tables
        except TApplicationException as error:
            if error.type != TApplicationException.UNKNOWN_METHOD:
                raise
            tables = super().get_table_objects_by_name(dbname, tbl_names)
        return tables

    def lock(self, rqst: LockRequest) -> LockResponse:
        """Request a lock. It may be granted or waiting."""
        response = super().lock(rqst)
        self._lock_id = response.lockid
        return response

    def unlock(self, rqst: UnlockRequest) -> None:
        """Release the lock, through a new connection if this one broke: else all writers wait until it expires."""
        self._lock_id = None
        try:
            super().unlock(rqst)
        except NoSuchLockException:
            return  # revoked: the commit has noticed it, or had finished before
        except (TTransportException, OSError):
            self._iprot.trans.close()
            with suppress(TException, OSError), self._metastore_client as client:
                Client.unlock(client, rqst)

    def alter_table_with_environment_context(
        self, dbname: str, tbl_name: str, new_tbl: Table, environment_context: EnvironmentContext
    ) -> None:
        """Alter a table. A commit requires its lock, and the metadata file that it is based on."""
        previous_location = (new_tbl.parameters or {}).get(PREVIOUS_METADATA_LOCATION)
        if self._lock_id is not None and previous_location:
            self._require_lock(self._lock_id)
            environment_context.properties |= {
                _EXPECTED_KEY: METADATA_LOCATION,
                _EXPECTED_VALUE: previous_location,
            }
        try:
            super().alter_table_with_environment_context(dbname, tbl_name, new_tbl, environment_context)
        except MetaException as error:
            if _CONFLICT_TEXT in (error.message or ""):
                raise CommitFailedException(f"{dbname}.{tbl_name}: another writer committed first") from error
            raise
        except InvalidOperationException as error:
            raise Invalid(
                f"{dbname}.{tbl_name}: the Hive Metastore rejected the change: {error.message}"
            ) from error

    def _require_lock(self, lock_id: int) -> None:
        try:
            state = self.check_lock(CheckLockRequest(lockid=lock_id)).state
        except NoSuchLockException:
            state = None
        if state != LockState.ACQUIRED:
            raise CommitFailedException("the metastore revoked the lock after its timeout")
