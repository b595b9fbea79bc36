"""Protocols for what the wire formats need from outside: schemas by id, tables by time. No network here."""

from typing import NamedTuple, Protocol, runtime_checkable

from ticdc_bridge.schemas.model.table import Table, TableId, TableVersion

SchemaId = int | str
"""A Confluent id; as text a UUID (Glue's, or a GUID of Confluent's), or an id of Apicurio's (`ApicurioId`)."""


EITHER = "8 bytes"


class ApicurioId(NamedTuple):
    """An id that Apicurio's serialisers wrote. space: globalId or contentId, whose numbers are not each other's; EITHER
    where the message does not say which (8 bytes before the body).
    """

    space: str
    number: int

    @property
    def schema_id(self) -> str:
        return f"{self.number} ({self.space})"


def apicurio_id(schema_id: SchemaId) -> ApicurioId | None:
    """The inverse of `ApicurioId.schema_id`; None for other ids."""
    if isinstance(schema_id, int) or not schema_id.endswith(")"):
        return None
    number, _, space = schema_id[:-1].partition(" (")
    return ApicurioId(space, int(number))


class SchemaSource(Protocol):
    """A schema registry, or a file that stands in for one."""

    def by_id(self, schema_id: SchemaId, where: str, subject: str | None = None) -> str:
        """Avro schema text that defines all types it uses. where: the part of the message, for errors.

        subject: what the topic's schemas are registered under (`avro_subject`), where that is known: ids are counted
        in each context of a registry, and this says which is meant.
        WireError UNKNOWN_SCHEMA_ID; UNSUPPORTED_SCHEMA for what is no Avro schema, or that of another topic;
        SetupError when the registry can't be reached.
        """

    def newest(self, subject: str) -> str | None:
        """Text of the subject's newest version, None when there is no such subject."""

    def id_of(self, subject: str, schema: str) -> SchemaId:
        """The id of a schema under a subject, registering it where the source can.

        WireError SCHEMA_NOT_FOUND or SetupError REGISTRY_REFUSED / REGISTRY_UNREACHABLE.
        """


class ClaimChecks(Protocol):
    """Where the contents of claim-check messages are kept."""

    def fetch(self, name: str) -> bytes:
        """The file of this base name. WireError CLAIM_CHECK when there is none, or it is too large."""


class TableSource(Protocol):
    """The version history of tables."""

    def at(self, table: TableId, commit_ts: int | None) -> TableVersion | None:
        """The newest version with commit_ts below the row's; None where the table isn't known.

        Without a commit_ts: the newest version of all.
        """

    def sanitised(self, table: TableId, columns: tuple[str, ...], commit_ts: int | None) -> TableVersion | None:
        """As `at`, by names as Avro sanitises them; without a commit_ts the newest version with these columns."""


@runtime_checkable
class TableVersions(TableSource, Protocol):
    """A TableSource that can list versions."""

    def with_columns(self, table: TableId, columns: tuple[str, ...]) -> list[TableVersion]:
        """All versions that have these columns alone, by names as Avro sanitises them; the oldest first. Where none
        has: those whose key they are.
        """


@runtime_checkable
class TableLineage(TableSource, Protocol):
    """A TableSource whose versions do not have the column ids of one history, and that can find them."""

    def in_same_history(self, older: Table, newer: Table) -> tuple[Table, Table]:
        """Two versions of a table with the column ids of one history, as far as there is one."""


@runtime_checkable
class TableSpans(TableSource, Protocol):
    """A TableSource that knows how long its answers hold."""

    def sanitised_span(self, table: TableId, commit_ts: int) -> tuple[int, int]:
        """(after, until): `sanitised` says the same, or fails alike, for all after < commit_ts <= until.

        The commit_ts given is one of these. At best as wide as is known; SetupError as `sanitised`.
        """
