"""What the wire formats need from outside, as protocols: schemas by id, tables by time. No network here."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from schemas.model.table import TableId, TableVersion

SchemaId = int | str
"""A Confluent id, or a Glue UUID as text."""


class SchemaSource(Protocol):
    """A schema registry, or a file that stands in for one."""

    def by_id(self, schema_id: SchemaId, where: str) -> str:
        """Schema text. WireError UNKNOWN_SCHEMA_ID; SetupError when the registry can't be reached."""
        ...

    def newest(self, subject: str) -> str | None:
        """Text of the subject's newest version, None when there is no such subject."""
        ...

    def id_of(self, subject: str, schema: str) -> SchemaId:
        """The id of a schema under a subject, registering it where the source can.

        WireError SCHEMA_NOT_FOUND or SetupError REGISTRY_REFUSED / REGISTRY_UNREACHABLE.
        """
        ...


class ClaimChecks(Protocol):
    """Where the contents of claim-check messages are kept."""

    def fetch(self, name: str) -> bytes:
        """The file of this base name. WireError CLAIM_CHECK when there is none, or it is too large."""
        ...


class TableSource(Protocol):
    """The version history of tables."""

    def at(self, table: TableId, commit_ts: int | None) -> TableVersion | None:
        """The newest version with commit_ts below the row's; None where the table isn't known.

        Without a commit_ts: the newest version of all.
        """
        ...

    def sanitised(self, table: TableId, columns: tuple[str, ...], commit_ts: int | None) -> TableVersion | None:
        """As `at`, by names as Avro sanitises them; without a commit_ts the newest version with these columns."""
        ...


@runtime_checkable
class TableSpans(TableSource, Protocol):
    """A TableSource that knows how long its answers hold."""

    def sanitised_span(self, table: TableId, commit_ts: int) -> tuple[int, int]:
        """(after, until): `sanitised` says the same, or fails alike, for all after < commit_ts <= until.

        The commit_ts given is one of these. At best as wide as is known; SetupError as `sanitised`.
        """
        ...
