"""Tables as the stream itself tells them: DDL events on their way become definitions for the rows after them."""

import sys
from bisect import bisect_left, insort
from dataclasses import replace

from ticdc_bridge.schemas.ddl.executor.apply import affected_tables, apply
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog, new_catalog
from ticdc_bridge.schemas.ddl.parser.lexer import mode_of
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.formats.base import Decoder, commit_ts_of
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.event import MAX_TSO, DdlEvent, Event, Message
from ticdc_bridge.schemas.model.ports import TableSource, TableSpans, TableVersions
from ticdc_bridge.schemas.model.table import TableId, TableVersion
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig


def commit_ts_of_statement(event: DdlEvent) -> int | None:
    """Without a commit_ts Canal's `es` counts, the commit's millisecond, as for its rows."""
    return commit_ts_of(event) if "es" in event.extra else event.commit_ts


class StreamDefinitions:
    """Table versions from DDL events, after those given. A statement that fails leaves its table unknown from there."""

    def __init__(self, tables: TableSource | None = None) -> None:
        self._defined = tables
        self._seen: set[tuple[int, str, str, str]] = set()
        self._has_warned = False
        self._events: list[tuple[int, int, DdlEvent]] = []
        self._catalog: Catalog = new_catalog()
        self._versions: dict[TableId, list[tuple[int, TableVersion | None]]] = {}

    def learn(self, event: DdlEvent) -> None:
        """Takes a DDL event, once; without a time (`commit_ts_of_statement`) it is not used."""
        commit_ts = commit_ts_of_statement(event)
        key = (commit_ts or 0, event.db, event.table, event.query)
        if not event.query or key in self._seen:
            return
        self._seen.add(key)
        if commit_ts is None:
            if not self._has_warned:
                details = "which rows come after it is not known; give the definitions as a file"
                print(f"warning: DDL of the stream without a commit_ts is not used: {details}", file=sys.stderr)
            self._has_warned = True
            return
        event = replace(event, commit_ts=commit_ts)
        entry = (commit_ts, len(self._events), event)
        late = bool(self._events) and entry[0] < self._events[-1][0]
        insort(self._events, entry, key=lambda e: (e[0], e[1]))
        if not late:
            self._apply(event)
            return
        self._catalog, self._versions = new_catalog(), {}
        for _, _, item in self._events:
            self._apply(item)

    def _apply(self, event: DdlEvent) -> None:
        assert event.commit_ts is not None
        ids: tuple[TableId, ...] = (TableId(event.db, event.table),)
        try:
            statement = parse(event.query, mode_of(event.format), event.db)
            ids = affected_tables(self._catalog, statement, event.db)
            self._catalog = apply(self._catalog, statement, event.db)
        except DdlError:
            for i in ids:
                self._catalog = self._catalog.without_table(i)
        for i in ids:
            table = self._catalog.table(i)
            version = TableVersion(event.commit_ts, table) if table else None
            self._versions.setdefault(i.folded, []).append((event.commit_ts, version))

    def at(self, table: TableId, commit_ts: int | None) -> TableVersion | None:
        definition = self._defined.at(table, commit_ts) if self._defined else None
        if definition is not None:
            return definition
        versions = self._versions.get(table.folded, [])
        index = len(versions) if commit_ts is None else bisect_left(versions, commit_ts, key=lambda v: v[0])
        return versions[index - 1][1] if index else None

    def sanitised(self, table: TableId, columns: tuple[str, ...], commit_ts: int | None) -> TableVersion | None:
        return self._defined.sanitised(table, columns, commit_ts) if self._defined else None

    def with_columns(self, table: TableId, columns: tuple[str, ...]) -> list[TableVersion]:
        """As what is given beforehand has it (schemas.model.ports.TableVersions)."""
        return self._defined.with_columns(table, columns) if isinstance(self._defined, TableVersions) else []

    def sanitised_span(self, table: TableId, commit_ts: int) -> tuple[int, int]:
        """As what is given beforehand has it (schemas.model.ports.TableSpans)."""
        if self._defined is None:
            return -1, MAX_TSO
        if isinstance(self._defined, TableSpans):
            return self._defined.sanitised_span(table, commit_ts)
        return commit_ts - 1, commit_ts


class LearningDecoder:
    """A side's decoder; where the side learns, from the DDL it reads, so that it needs the messages in order."""

    def __init__(self, config: CodecConfig) -> None:
        self._learned = StreamDefinitions(config.tables)
        self.tables: TableSource | None = self._learned if config.learn else config.tables
        self._decoder = replace(config, tables=self.tables).decoder()
        self.decoder: Decoder = self if config.learn else self._decoder

    def decode(self, message: Message) -> list[Event]:
        events = self._decoder.decode(message)
        for event in events:
            if isinstance(event, DdlEvent):
                self._learned.learn(event)
        return events
