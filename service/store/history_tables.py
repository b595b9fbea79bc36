"""Tables of the histories of TiDB's tables (layout 3). Names are looked up in lower case (`db_key`, `table_key`)."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, LargeBinary, String, Table, Text, UniqueConstraint

from service.store.tables import metadata

changefeeds = Table(
    "history_changefeeds",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("name", String, nullable=False, unique=True),
    Column("sealed_ts", BigInteger, nullable=False, default=0),
    Column("revision", BigInteger, nullable=False, default=0),
    Column("zone", String, nullable=False, default=""),
)

events = Table(
    "history_events",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("changefeed", Integer, nullable=False),
    Column("commit_ts", BigInteger, nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("key", LargeBinary(20), nullable=False),
    Column("state", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("db", Text, nullable=False),
    Column("tbl", Text, nullable=False),
    Column("ddl_type", Integer),
    Column("query", Text, nullable=False),
    Column("mode", String, nullable=False),
    Column("sql_mode", Text, nullable=False),
    Column("format", String, nullable=False),
    Column("topic", Text),
    Column("part", Integer),
    Column("off", BigInteger),
    Column("copies", Integer, nullable=False),
    Column("unsealed", Boolean, nullable=False),
    Column("error", Text),
    Column("carried", LargeBinary(16)),
    Column("carried_name", Text),  # JSON [db, table]
    Column("partial", Text, nullable=False),
    UniqueConstraint("changefeed", "key"),
    Index("history_events_by_position", "changefeed", "commit_ts", "ordinal"),
    Index("history_events_by_state", "changefeed", "state", "commit_ts"),
)

involved = Table(
    "history_involved",
    metadata,
    Column("changefeed", Integer, primary_key=True, autoincrement=False),
    Column("db_key", Text, primary_key=True),
    Column("table_key", Text, primary_key=True),
    Column("commit_ts", BigInteger, primary_key=True, autoincrement=False),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

names = Table(
    "history_names",
    metadata,
    Column("changefeed", Integer, primary_key=True, autoincrement=False),
    Column("db_key", Text, primary_key=True),
    Column("table_key", Text, primary_key=True),
    Column("commit_ts", BigInteger, primary_key=True, autoincrement=False),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    Column("db", Text, nullable=False),
    Column("tbl", Text, nullable=False),
    Column("state", String, nullable=False),
    Column("table_id", String, nullable=False),
    Column("form", LargeBinary(16)),
    Column("since", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("ddl", BigInteger, nullable=False),
    Column("relation", String, nullable=False),
    Column("dropped_id", String),
    Column("dropped", LargeBinary(16)),
    Index("history_names_by_position", "changefeed", "commit_ts", "ordinal"),
    sqlite_with_rowid=False,
)

databases = Table(
    "history_databases",
    metadata,
    Column("changefeed", Integer, primary_key=True, autoincrement=False),
    Column("db_key", Text, primary_key=True),
    Column("commit_ts", BigInteger, primary_key=True, autoincrement=False),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("live", Boolean, nullable=False),
    Column("charset", String, nullable=False),
    Column("collate", String, nullable=False),
    Column("ddl", BigInteger, nullable=False),
)

forms = Table(  # service.history.forms: what a table is but for its name
    "history_forms",
    metadata,
    Column("form", LargeBinary(16), primary_key=True),
    Column("body", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

partitions = Table(
    "history_partitions",
    metadata,
    Column("changefeed", Integer, primary_key=True, autoincrement=False),
    Column("topic", Text, primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger),
    Column("watermark", BigInteger),
    sqlite_with_rowid=False,
)

drift = Table(
    "history_drift",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("changefeed", Integer, nullable=False),
    Column("key", LargeBinary(20), nullable=False),
    Column("kind", String, nullable=False),
    Column("db", Text, nullable=False),
    Column("tbl", Text, nullable=False),
    Column("commit_ts", BigInteger, nullable=False),
    Column("version_ts", BigInteger),
    Column("detail", Text, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("seen_ms", BigInteger, nullable=False),
    UniqueConstraint("changefeed", "key"),
)

seen = Table(  # rows that fit the version they belong to
    "history_seen",
    metadata,
    Column("changefeed", Integer, primary_key=True, autoincrement=False),
    Column("db_key", Text, primary_key=True),
    Column("table_key", Text, primary_key=True),
    Column("version_ts", BigInteger, primary_key=True, autoincrement=False),
    Column("rows", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
