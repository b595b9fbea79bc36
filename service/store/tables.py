"""The tables of the current layout, of the registry and of histories. Plain types only: SQLite and PostgreSQL hold the
same.

Histories (layout 3): names are looked up in lower case (`db_key`, `table_key`).
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

LAYOUT: Final = 5
"""Raised with every change of the tables. Older layouts are brought up to date (`migrations`), newer ones refused."""


metadata = MetaData()


facts = Table("bridge_facts", metadata, Column("name", String, primary_key=True), Column("value", Text, nullable=False))


schemas = Table(
    "schemas",
    metadata,
    Column("context", String, primary_key=True),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("identity", LargeBinary(16), nullable=False),
    Column("kind", String, nullable=False),
    Column("text", Text, nullable=False),
    Column("refs", Text, nullable=False),  # JSON list of [name, subject, version]
    Column("metadata", Text),  # JSON object
    Column("likeness", LargeBinary(16)),  # identity.likeness; NULL: it has references and is compared by itself
    Column("digest", LargeBinary(16)),  # over what the row holds (`row_digest`); NULL only while a step fills it
    Index("schemas_by_identity", "identity", "context"),  # not unique: an import may bring one text under two ids
)


versions = Table(
    "versions",
    metadata,
    # BigInteger would not be SQLite's rowid; the order of registration needs no more than this
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("subject", String, nullable=False),
    Column("version", Integer, nullable=False),
    Column("context", String, nullable=False),
    Column("id", Integer, nullable=False),
    Column("ts", BigInteger, nullable=False),
    Column("deleted", Boolean, nullable=False, default=False),
    UniqueConstraint("subject", "version"),
    ForeignKeyConstraint(["context", "id"], ["schemas.context", "schemas.id"]),
    Index("versions_by_id", "context", "id"),
)


references = Table(
    "version_references",
    metadata,
    Column("subject", String, primary_key=True),  # who refers
    Column("version", Integer, primary_key=True),
    Column("to_subject", String, primary_key=True),
    Column("to_version", Integer, primary_key=True),
    Index("references_by_target", "to_subject", "to_version"),
)


counters = Table(
    "id_counters", metadata, Column("context", String, primary_key=True), Column("last", BigInteger, nullable=False)
)


configs = Table("configs", metadata, Column("scope", String, primary_key=True), Column("body", Text, nullable=False))


modes = Table("modes", metadata, Column("scope", String, primary_key=True), Column("mode", String, nullable=False))


contexts = Table("contexts", metadata, Column("context", String, primary_key=True))  # the default one is not in it


warnings = Table(
    "warnings",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("subject", String, nullable=False),
    Column("version", Integer, nullable=False),
    Column("kind", String, nullable=False),
    Column("message", Text, nullable=False),
    Column("ts", BigInteger, nullable=False),
    Index("warnings_by_subject", "subject", "version"),
)


lineage = Table(
    "lineage",
    metadata,
    Column("key", String, primary_key=True),
    Column("body", Text, nullable=False),  # JSON object
    Column("rows", BigInteger, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
)


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


forms = Table(  # service.history.table_codec: what a table is but for its name
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
