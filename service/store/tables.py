"""The tables of the current layout. Plain types only, so that SQLite and PostgreSQL hold the same."""

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

LAYOUT: Final = 4
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
