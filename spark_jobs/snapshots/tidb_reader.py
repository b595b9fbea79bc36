"""Tables of a live TiDB at one TSO, each in chunks of its key that Spark's workers read side by side.

`tidb_snapshot` is set on every connection, so that all of them see one moment, definitions too (upstream
`pkg/sessionctx/variable/sysvar.go`). A chunk is what follows a cut in the order of the key; the cuts come from TiDB in
that order, so that no text is compared here by another collation.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

from ticdc_bridge.schemas.columnar.dump_reader import TextForm
from ticdc_bridge.schemas.columnar.row_packets import packet_rows
from ticdc_bridge.schemas.ddl.executor.indexes import PRIMARY
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW
from ticdc_bridge.schemas.inputs import live_tables
from ticdc_bridge.schemas.inputs.live_tables import SYSTEM_DATABASES
from ticdc_bridge.schemas.inputs.table_sources import mysql_client
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import MAX_TSO, tso_physical_ms
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import Column, TableId
from ticdc_bridge.schemas.model.types import NUMBERS, Kind
from ticdc_bridge.spark_jobs.snapshots.dump_dialect import arrow_array
from ticdc_bridge.spark_jobs.snapshots.stage import Estimate, SnapshotTable, duration

CA: Final = "BRIDGE_TIDB_CA"
"""The environment variable with the file of the certificate that the server's is checked by."""
ROW_ID: Final = "_tidb_rowid"
_RATE: Final = 50_000
"""Rows a second, about, that are read."""
_READ: Final = 256 << 10
_PATIENCE: Final = 600.0
"""Seconds that TiDB may take for the first row of a chunk, or for its checksums."""
_AS_SENT: Final = TextForm()
_NO_COLUMN, NO_SNAPSHOT = 1054, (8055, 9006)
_SECONDS: Final = {"h": 3600, "m": 60, "s": 1}


@dataclass(frozen=True)
class TidbServer:
    """A TiDB, read as of a TSO. zone: of its sessions, in which TIMESTAMP values are given."""

    address: live_tables.ServerAddress
    zone: str
    tso: int = 0

    @classmethod
    def of(cls, url: str, zone: str, at: int | None = None) -> TidbServer:
        """`mysql://USER@HOST:PORT` at a TSO, by default the newest. SetupError USAGE, TIDB_UNREACHABLE."""
        try:
            address = live_tables.server_address(url)
        except ValueError as error:
            raise SetupError("USAGE", details=f"TiDB's URL: {error}") from error
        if file := os.environ.get(CA):
            if not Path(file).is_file():
                raise SetupError("USAGE", details=f"{CA}: there is no file {file}")
            address = replace(address, tls={"ca": file, "verify_mode": "required", "check_hostname": True})
        if at is not None and not 0 < at <= MAX_TSO:
            raise SetupError("USAGE", details=f"--at {at}: a TSO is needed (physical ms << 18 | logical)")
        return cls(address, zone, at) if at is not None else cls(address, zone).newest()

    def newest(self) -> TidbServer:
        """The same at the newest TSO."""
        with replace(self, tso=0).cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT @@tidb_current_ts")
            return replace(self, tso=int(cursor.fetchone()[0]))

    @contextmanager
    def cursor(self, unbuffered: bool = False) -> Iterator[Any]:
        """A cursor at the TSO, whose values are bytes. SetupError TIDB_UNREACHABLE for what the server refuses."""
        try:
            client = mysql_client()
        except ValueError as error:
            raise SetupError("USAGE", details=str(error)) from error
        try:
            connection = live_tables.connect(self.address, client, autocommit=True, read_timeout=_PATIENCE)
            try:
                connection.use_unicode, connection.decoders = False, {}
                cursor = connection.cursor(client.cursors.SSCursor if unbuffered else None)
                zone = "+00:00" if self.zone == "UTC" else self.zone
                # A server's own limits would cut results, or end statements.
                limits = f"sql_select_limit = {(1 << 64) - 1}, max_execution_time = 0"
                cursor.execute(f"SET SESSION time_zone = %s, sql_mode = '', {limits}", (zone,))
                if self.tso:
                    cursor.execute(f"SET SESSION tidb_snapshot = '{self.tso}'")
                yield cursor
            finally:
                connection.close()
        except (client.MySQLError, OSError, RuntimeError, ValueError) as error:
            details = live_tables.error_reason(error)
            if self.tso and error.args[:1] and error.args[0] in NO_SNAPSHOT:
                details += (
                    ": TiDB has removed the rows of that time (GC): give a newer --at, or a longer tidb_gc_life_time"
                )
            raise SetupError("TIDB_UNREACHABLE", place=self.address.name, details=details) from error

    def ids(self) -> list[TableId]:
        """All tables but the system's, as of the TSO."""
        with self.cursor() as cursor:
            cursor.execute("SELECT table_schema, table_name FROM information_schema.tables"
                           " WHERE table_type = 'BASE TABLE' ORDER BY table_schema, table_name")  # fmt: skip
            ids = [TableId(db.decode(), name.decode()) for db, name in cursor.fetchall()]
        return [id_ for id_ in ids if id_.db.lower() not in SYSTEM_DATABASES and self.address.database in ("", id_.db)]

    def tables(self, ids: Iterable[TableId], chunk_rows: int) -> list[TidbTable]:
        """These tables, as of the TSO."""
        with self.cursor() as cursor:
            tables = []
            for id_ in ids:
                cursor.execute(f"SHOW CREATE TABLE {_name(id_)}")
                query, where = cursor.fetchone()[1].decode(), f"table {id_} of {self.address.name}"
                shown = DdlText(self.tso - 1, id_.db, query, SHOW, "UTC", where)
                table = versions([shown])[-1].table
                columns = [column for column in table.columns if not column.virtual]
                tables.append(TidbTable(table, shown, columns, self, chunk_rows))
            return tables


@dataclass
class TidbTable(SnapshotTable):
    """A table at the server's TSO. SELECT gives what a changefeed sends: nothing is lost."""

    server: TidbServer
    chunk_rows: int

    @property
    def identity(self) -> str:
        """With the key, which is asked for here, and not by every task."""
        return repr((self.server.address.name, self.server.zone, self.table, self.chunk_rows, [*self.key]))

    def estimate(self) -> Estimate:
        """By TiDB's statistics."""
        with self.server.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {_name(self.table.id)} LIMIT 0")  # needs the right to read
            cursor.execute(
                "SELECT table_rows, data_length FROM information_schema.tables"
                " WHERE table_schema = %s AND table_name = %s",
                tuple(self.table.id),
            )
            rows, size = (int(value or 0) for value in cursor.fetchone())
        return Estimate(rows, False, rows // self.chunk_rows + 1, size)

    def obstacles(self, rows: int) -> list[str]:
        """A time to live of old versions that is over before the rows are read."""
        with self.server.cursor() as cursor:
            cursor.execute("SELECT @@tidb_gc_enable, @@tidb_gc_life_time")
            enabled, life = cursor.fetchone()
        kept = sum(int(n) * _SECONDS[unit] for n, unit in re.findall(r"(\d+)([hms])", life.decode()))
        age, seconds = time.time() - tso_physical_ms(self.server.tso) / 1000, rows / _RATE
        if not int(enabled) or age + seconds < kept:
            return []
        hours = int((age + seconds) / 1800) + 1
        return [
            f"tidb_gc_life_time is {life.decode()}: the TSO is {duration(age)} old, and reading takes about"
            f" {duration(seconds)}. SET GLOBAL tidb_gc_life_time = '{hours}h', or first create a changefeed at the TSO"
        ]

    @cached_property
    def key(self) -> dict[str, Column | None]:
        """What orders the rows, by its names in SQL: the clustered key's columns in order, or _tidb_rowid (None)."""
        try:
            with self.server.cursor() as cursor:
                cursor.execute(f"SELECT {ROW_ID} FROM {_name(self.table.id)} LIMIT 0")
            return {ROW_ID: None}
        except SetupError as error:
            if error_number(error) != _NO_COLUMN:
                raise
            (primary,) = (index for index in self.table.indexes if index.name == PRIMARY)
            return {quote_name(name): self.table.by_name[name] for name in primary.columns}

    @property
    def name(self) -> str:
        """In SQL."""
        return _name(self.table.id)

    def cuts(self, key: Mapping[str, Column | None]) -> list[list[str]]:
        """Values (SQL) of the key's columns, or of the first of them, in each `chunk_rows`th row of its order."""
        cuts = list[list[str]]()
        with self.server.cursor() as cursor:
            while (row := self._end_of(cursor, key, _after([*key], cuts[-1]) if cuts else "TRUE")) is not None:
                cuts.append(row)
        return cuts

    def _end_of(self, cursor: Any, key: Mapping[str, Column | None], where: str) -> list[str] | None:
        """The last row of a chunk; None where it has fewer rows."""
        names = ", ".join(key)
        order = f"ORDER BY {names} LIMIT {self.chunk_rows - 1}, 1"
        sent = ", ".join(_SORT_SQL.get(c.type.kind, "{0}").format(name) if c else name for name, c in key.items())
        cursor.execute(f"SELECT {sent} FROM {self.name} WHERE {where} {order}")
        row = cursor.fetchone()
        for value, column in zip(row or (), key.values(), strict=False):
            is_time = column is not None and column.type.kind is Kind.TIMESTAMP
            if is_time and values.shift_zone(value.decode(), self.server.zone, "UTC")[1]:  # which of the two?
                details = f"a chunk ends at a time that {self.server.zone} had twice: dump it, or take --time-zone UTC"
                raise SetupError("STOPPED", where=str(self.table.id), details=details)
        columns = (None if c and c.type.kind in (Kind.ENUM, Kind.SET) else c for c in key.values())
        return row and [*map(literal, row, columns)]

    def end_of_chunk(self, column: Column, first: int) -> int:
        """The last value of an integer that begins the key, in the chunk from `first` on."""
        name = quote_name(column.name)
        with self.server.cursor() as cursor:
            if (row := self._end_of(cursor, {name: column}, f"{name} >= {first}")) is not None:
                return int(row[0])
            cursor.execute(f"SELECT MAX({name}) FROM {self.name}")
            return max(int(cursor.fetchone()[0] or first), first)

    def chunks(self) -> list[str]:
        """Chunks of about `chunk_rows` rows, in the key's order."""
        cuts, order = self.cuts(self.key), f"ORDER BY {', '.join(self.key)}"
        after = ["TRUE", *(_after([*self.key], cut) for cut in cuts)]
        if ROW_ID not in self.key:
            return [f"WHERE {start} {order} LIMIT {self.chunk_rows}" for start in after]
        # Rows that EXCHANGE PARTITION brought in may have the number of others: no LIMIT between them.
        until = [*(f" AND {ROW_ID} <= {cut}" for (cut,) in cuts), ""]
        return [f"WHERE {start}{end} {order}" for start, end in zip(after, until, strict=True)]

    def read(self, chunk: str) -> Iterator[list[Any]]:
        """chunk: SQL, what follows the name of the table."""
        columns = ", ".join(_EXACT_SQL.get(c.type.kind, "{0}").format(quote_name(c.name)) for c in self.columns)
        with self.server.cursor(unbuffered=True) as cursor:
            cursor.execute(f"SELECT {columns} FROM {self.name} {chunk}")
            connection = cursor.connection
            connection._result.unbuffered_active = False  # its rows are read here, without the client
            for part in packet_rows(partial(_read_into, connection._rfile), len(self.columns)):
                if isinstance(part, bytes):
                    mysql_client().protocol.MysqlPacket(part, "utf8").check_error()
                    return
                yield [arrow_array(v, c, _AS_SENT) for v, c in zip(part, self.columns, strict=True)]


def _read_into(file: Any, buffer: Any) -> int:
    """readinto1 waits for more than the bytes that have come."""
    data = file.read1(min(len(buffer), _READ))
    buffer[: len(data)] = data
    return len(data)


def _name(id_: TableId) -> str:
    return f"{quote_name(id_.db)}.{quote_name(id_.table)}"


_EXACT_SQL: Final[Mapping[Kind, str]] = {Kind.FLOAT: "CONCAT({0})"}
"""SQL of values of which TiDB sends six digits where they are large or small."""
_SORT_SQL: Final = {**_EXACT_SQL, **dict.fromkeys((Kind.ENUM, Kind.SET), "CAST({0} AS UNSIGNED)")}
"""SQL of what TiDB orders by: two values of an ENUM have one text if an element is empty, and two sets."""


_AS_NUMBER: Final[Mapping[Kind, Callable[[str, Column], object]]] = {
    Kind.ENUM: lambda text, column: values.enum_index(text, column.elements),
    Kind.SET: lambda text, column: values.set_mask(text, column.elements),
    Kind.FLOAT: lambda text, _: values.parse_float32(text),
    Kind.DOUBLE: lambda text, _: values.real(text),
    Kind.DECIMAL: lambda text, _: values.plain_decimal(text, None),
}
"""Kinds that TiDB compares by a number, which is not their text: of FLOAT all digits that it has as a double."""


def literal(value: bytes, column: Column | None) -> str:
    """A value of a key as SQL that it is compared with. column: None for _tidb_rowid."""
    kind = column.type.kind if column is not None else Kind.INTEGER
    if column is not None and kind in _AS_NUMBER:
        return str(_AS_NUMBER[kind](value.decode(), column))
    if kind in NUMBERS:
        return value.decode()
    if kind is Kind.BIT:  # TiDB finds no BIT(64) that begins with a one by x'…'
        return str(int.from_bytes(value))
    if kind is Kind.BINARY:
        return f"x'{value.hex()}'"
    text = value.decode().replace("\\", "\\\\").replace("'", "''")
    return f"'{text}'"


def _after(names: Sequence[str], values: Sequence[str]) -> str:
    """SQL: rows after these values in the key's order, written out so that each part is a range of the index."""
    cases = []
    for n, (name, value) in enumerate(zip(names, values, strict=True)):
        same = [f"{a} = {b}" for a, b in zip(names[:n], values[:n], strict=True)]
        cases.append(f"({' AND '.join([*same, f'{name} > {value}'])})")
    return f"({' OR '.join(cases)})"


def error_number(error: SetupError) -> Any:
    """What TiDB calls the error behind this one."""
    return getattr(error.__cause__, "args", (0,))[0]
