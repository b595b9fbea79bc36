"""One side of a job: its format with options, schemas, tables and view."""

from dataclasses import dataclass

from ticdc_bridge.clients.registry import Schemas
from ticdc_bridge.schemas.formats.base import Context, Decoder, Encoder
from ticdc_bridge.schemas.inputs.claim_check_folder import ClaimFolder
from ticdc_bridge.schemas.inputs.subject_names import Strategy, with_strategy
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import TableSource
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice
from ticdc_bridge.spark_jobs.pipeline.table_view import ANY_TABLE, TableView, ViewDecoder

PLAIN = "plain"
"""The format of change events as lines: what `encode` reads."""
_MAY_LACK_TABLE = ("debezium-mysql", "debezium-tidb", "canal-json", "auto")
"""Formats whose rows need not say of which table they are: the options table and table_from_topic do."""


@dataclass(frozen=True)
class CodecConfig:
    """One side of a job: a format with its schemas, options and table definitions. Pickles into workers.

    verify_checksum: rows that come with a row checksum are compared with it. strategy: the subjects that schemas
    are registered under. view: one table's rows must fit its columns' Spark types. chosen: the tables whose rows and
    DDL are taken; None: all.
    """

    format: str
    schemas: Schemas
    options: Options
    tables: TableSource | None = None
    claims: ClaimFolder | None = None
    verify_checksum: bool = False
    learn: bool = False
    strategy: Strategy = "topic"
    view: TableView | None = None
    chosen: TableChoice | None = None

    @property
    def uses_schemas(self) -> bool:
        """True if its messages may have registered schemas."""
        format_ = format_named(self.format)
        return format_.needs_schemas or format_.uses_schemas

    def __post_init__(self) -> None:
        """SetupError USAGE for an option that says what each message of the format says itself."""
        given = next((name for name in ("table", "table_from_topic") if getattr(self.options, name)), None)
        if given and self.format not in _MAY_LACK_TABLE:
            details = f"option {given}: {self.format} messages say of which table they are: leave it out"
            raise SetupError("USAGE", details=details)

    def context(self) -> Context:
        schemas = with_strategy(self.schemas, self.strategy)
        table = self.view.table.id if self.view and self.view.table.id != ANY_TABLE else None
        return Context(schemas, self.tables, self.options, self.claims, table)

    def decoder(self) -> Decoder:
        format_decoder = format_named(self.format).decoder(self.context())
        return ViewDecoder(format_decoder, self.view, self.tables) if self.view else format_decoder

    def encoder(self) -> Encoder:
        return format_named(self.format).encoder(self.context())


def check_any_order(config: CodecConfig) -> None:
    """SetupError USAGE where Spark, which splits its input, would keep from a message what it needs of earlier ones."""
    if format_named(config.format).in_order and config.tables is None:
        details = (
            f"{config.format} messages may need earlier messages, and Spark reads them independently: "
            f"give table definitions ({Hint.DDL}), or run without Spark"
        )
        raise SetupError("USAGE", details=details)
