"""The tables of the current layout. Plain types only: SQLite and PostgreSQL hold the same."""

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, LargeBinary, String, Table, Text, UniqueConstraint

LAYOUT: Final = 5
"""Raised with every change of the tables. Older layouts are brought up to date (`migrations`), newer ones refused."""

metadata = sa.MetaData()


def _needed(type_: Any, *names: str, **more: Any) -> list[Column[Any]]:
    """Columns that are never NULL."""
    return [Column(name, type_, nullable=False, **more) for name in names]


def _key(type_: Any, *names: str) -> list[Column[Any]]:
    """Columns of the primary key, whose values are given."""
    return [Column(name, type_, primary_key=True, autoincrement=False) for name in names]


def _counted(name: str) -> Column[Any]:
    """The primary key, counted by the database. BigInteger would not be SQLite's rowid."""
    return Column(name, Integer, primary_key=True, autoincrement=True)


# ---- the registry
facts = Table("bridge_facts", metadata, *_key(String, "name"), *_needed(Text, "value"))

schemas = Table(
    "schemas", metadata, *_key(String, "context"), *_key(Integer, "id"), *_needed(LargeBinary(16), "identity"),
    *_needed(String, "kind"),
    *_needed(Text, "text", "refs"),  # refs: JSON list of [name, subject, version]
    Column("metadata", Text),  # JSON object
    Column("likeness", LargeBinary(16)),  # identity.likeness; NULL: it has references and is compared by itself
    Column("digest", LargeBinary(16)),  # over what the row holds (`row_digest`); NULL only while a step fills it
    Index("schemas_by_identity", "identity", "context"),  # not unique: an import may bring one text under two ids
)  # fmt: skip

versions = Table(
    "versions", metadata, _counted("seq"), *_needed(String, "subject"), *_needed(Integer, "version"),
    *_needed(String, "context"), *_needed(Integer, "id"), *_needed(BigInteger, "ts"),
    *_needed(Boolean, "deleted", default=False),
    UniqueConstraint("subject", "version"),
    sa.ForeignKeyConstraint(["context", "id"], ["schemas.context", "schemas.id"]),
    Index("versions_by_id", "context", "id"),
)  # fmt: skip

references = Table(
    "version_references", metadata,
    *_key(String, "subject"), *_key(Integer, "version"),  # who refers
    *_key(String, "to_subject"), *_key(Integer, "to_version"),
    Index("references_by_target", "to_subject", "to_version"),
)  # fmt: skip

counters = Table("id_counters", metadata, *_key(String, "context"), *_needed(BigInteger, "last"))
configs = Table("configs", metadata, *_key(String, "scope"), *_needed(Text, "body"))
modes = Table("modes", metadata, *_key(String, "scope"), *_needed(String, "mode"))
contexts = Table("contexts", metadata, *_key(String, "context"))  # the default one is not in it

warnings = Table(
    "warnings", metadata, _counted("seq"), *_needed(String, "subject"), *_needed(Integer, "version"),
    *_needed(String, "kind"), *_needed(Text, "message"), *_needed(BigInteger, "ts"),
    Index("warnings_by_subject", "subject", "version"),
)  # fmt: skip

lineage = Table(
    "lineage", metadata, *_key(String, "key"),
    *_needed(Text, "body"),  # JSON object
    *_needed(BigInteger, "rows", "first", "last"),
)  # fmt: skip

# ---- histories
changefeeds = Table(
    "history_changefeeds", metadata, _counted("id"), *_needed(String, "name", unique=True),
    *_needed(BigInteger, "sealed_ts", "revision", default=0), *_needed(String, "zone", default=""),
)  # fmt: skip

events = Table(
    "history_events", metadata, *_key(BigInteger, "seq"), *_needed(Integer, "changefeed"),
    *_needed(BigInteger, "commit_ts"), *_needed(Integer, "ordinal"), *_needed(LargeBinary(20), "key"),
    *_needed(String, "state", "kind"), *_needed(Text, "db", "tbl"), Column("ddl_type", Integer),
    *_needed(Text, "query"), *_needed(String, "mode"), *_needed(Text, "sql_mode"), *_needed(String, "format"),
    Column("topic", Text), Column("part", Integer), Column("off", BigInteger), *_needed(Integer, "copies"),
    *_needed(Boolean, "unsealed"), Column("error", Text), Column("carried", LargeBinary(16)),
    Column("carried_name", Text),  # JSON [db, table]
    *_needed(Text, "partial"),
    UniqueConstraint("changefeed", "key"),
    Index("history_events_by_position", "changefeed", "commit_ts", "ordinal"),
    Index("history_events_by_state", "changefeed", "state", "commit_ts"),
)  # fmt: skip

involved = Table(
    "history_involved", metadata, *_key(Integer, "changefeed"), *_key(Text, "db_key", "table_key"),
    *_key(BigInteger, "commit_ts"), *_key(Integer, "ordinal"), sqlite_with_rowid=False,
)  # fmt: skip

names = Table(
    "history_names", metadata, *_key(Integer, "changefeed"), *_key(Text, "db_key", "table_key"),
    *_key(BigInteger, "commit_ts"), *_key(Integer, "ordinal"), *_needed(Text, "db", "tbl"),
    *_needed(String, "state", "table_id"), Column("form", LargeBinary(16)), *_needed(BigInteger, "since"),
    *_needed(Text, "reason"), *_needed(BigInteger, "ddl"), *_needed(String, "relation"),
    Column("dropped_id", String), Column("dropped", LargeBinary(16)),
    Index("history_names_by_position", "changefeed", "commit_ts", "ordinal"), sqlite_with_rowid=False,
)  # fmt: skip

databases = Table(
    "history_databases", metadata, *_key(Integer, "changefeed"), *_key(Text, "db_key"), *_key(BigInteger, "commit_ts"),
    *_key(Integer, "ordinal"), *_needed(Text, "name"), *_needed(Boolean, "live"),
    *_needed(String, "charset", "collate"), *_needed(BigInteger, "ddl"),
)  # fmt: skip

forms = Table(  # service.history.table_codec: what a table is but for its name
    "history_forms", metadata, *_key(LargeBinary(16), "form"), *_needed(LargeBinary, "body"), sqlite_with_rowid=False
)

partitions = Table(
    "history_partitions", metadata, *_key(Integer, "changefeed"), *_key(Text, "topic"), *_key(Integer, "part"),
    Column("next_offset", BigInteger), Column("watermark", BigInteger), sqlite_with_rowid=False,
)  # fmt: skip

drift = Table(
    "history_drift", metadata, _counted("seq"), *_needed(Integer, "changefeed"), *_needed(LargeBinary(20), "key"),
    *_needed(String, "kind"), *_needed(Text, "db", "tbl"), *_needed(BigInteger, "commit_ts"),
    Column("version_ts", BigInteger), *_needed(Text, "detail"), *_needed(BigInteger, "count", "seen_ms"),
    UniqueConstraint("changefeed", "key"),
)  # fmt: skip

seen = Table(  # rows that fit the version they belong to
    "history_seen", metadata, *_key(Integer, "changefeed"), *_key(Text, "db_key", "table_key"),
    *_key(BigInteger, "version_ts"), *_needed(BigInteger, "rows"), sqlite_with_rowid=False,
)  # fmt: skip
