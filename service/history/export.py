"""Tables of a history as files: SQL that TiDB runs, or JSON lines as `--ddl` takes them.

A table that is not known exactly is left out whole, with its reason: a reader would take the version before for its.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ticdc_bridge.schemas.ddl.executor.show_create import create_statement, show_create, unwritable_keys
from ticdc_bridge.schemas.ddl.executor.versions import in_utc, literal_timestamps
from ticdc_bridge.schemas.inputs.definition_files import LEFT_OUT
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.schemas.model.values import zone
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.history.model import Contradiction, State, TableVersionRow, time_text

Form = Literal["sql", "jsonl"]
_HEAD: Final = """-- Not kept, so not here: partitions, foreign keys, checks, TTL, AUTO_RANDOM, CLUSTERED.
SET NAMES utf8mb4;
SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='';
SET @OLD_TIME_ZONE=@@TIME_ZONE, TIME_ZONE='+00:00';"""
_NOT_KEPT: Final = "(/* an expression */ NULL)"
_FOOT: Final = "SET SQL_MODE=@OLD_SQL_MODE, TIME_ZONE=@OLD_TIME_ZONE;"
_UNZONED: Final = (
    "its default of {} is a TIMESTAMP in a time zone that is not known: give it (--ddl-time-zone, ddl_time_zone)"
)
Version = tuple[TableVersionRow, Contradiction | None]


@dataclass(slots=True)
class HistoryExport:
    """Texts of tables. at: a TSO, None for all versions (of JSON lines) or the newest. zone: of the sessions that ran
    the DDL. tables, versions: how many were written. left_out: what was not, with why.
    """

    form: Form
    at: int | None = None
    inclusive: bool = False
    zone: str | None = None
    tables: int = 0
    versions: int = 0
    left_out: list[str] = field(default_factory=list)

    def lines(self, changefeed: str, histories: Iterable[list[Version]]) -> Iterator[str]:
        """histories: all versions of each name, oldest first, by database. RegistryError for a zone that is none."""
        try:
            zone(self.zone or "UTC")
        except ValueError as error:
            raise RegistryError("UNPROCESSABLE", details=str(error)) from error
        if self.form == "sql":
            when = "of the newest versions" if self.at is None else f"at {time_text(self.at)} (commit_ts {self.at})"
            yield f"-- Tables of changefeed {_as_line(changefeed)} {when}.\n{_HEAD}"
        db = ""
        for versions in histories:
            chosen = versions if self.at is None and self.form == "jsonl" else self._at(versions)
            if not chosen:
                continue
            if reason := self._reason(chosen):
                id_, state = chosen[-1][0].id, chosen[-1][0].state
                self.left_out.append(f"{id_}: {reason}")
                if self.form == "sql":
                    yield f"\n-- left out: {_as_line(f'{id_}: {reason}')}"
                else:
                    yield _json({LEFT_OUT: str(id_), "state": str(state), "reason": reason})
                continue
            self.tables += 1
            if self.form == "sql":
                table = self._zoned(chosen[-1][0])
                if table.id.db != db:
                    db = table.id.db
                    yield f"\nCREATE DATABASE IF NOT EXISTS {quote_name(db)};\nUSE {quote_name(db)};"
                yield from self._sql(table)
            else:
                yield from (self._line(row) for row, _ in chosen if row.state is not State.RELATION)
        if self.form == "sql":
            yield "\n" + _FOOT

    def _at(self, versions: list[Version]) -> list[Version]:
        """The version at the time, if there is a table then."""
        for version in reversed(versions):
            row = version[0]
            if self.at is None or row.from_ts < self.at or (self.inclusive and row.from_ts == self.at):
                return [version] if row.is_live else []
        return []

    def _reason(self, versions: list[Version]) -> str:
        """Why a table can't be written, "" if it can."""
        if all(row.state is State.RELATION for row, _ in versions):
            return f"it is a {versions[0][0].relation}, whose definition is not kept"
        for row, contradiction in versions:
            if row.state in (State.PARTIAL, State.ERROR, State.UNKNOWN):
                return f"it is {row.state} since commit_ts {row.since}: {row.reason}"
            if contradiction is not None and row.is_live:
                return str(contradiction)
            columns = self._zoned(row).columns if row.table is not None and row.is_live else ()
            if unzoned := [c.name for c in columns if c.default_unzoned]:
                return _UNZONED.format(", ".join(unzoned))
        return ""

    def _zoned(self, row: TableVersionRow) -> Table:
        assert row.table is not None
        try:
            return in_utc(row.table, self.zone) if self.zone else row.table
        except DdlError as error:
            raise RegistryError("UNPROCESSABLE", details=error.detail) from error

    def _sql(self, table: Table) -> Iterator[str]:
        self.versions += 1
        for key, reason in unwritable_keys(table).items():
            self.left_out.append(f"{table.id}: {key}: {reason}")
            yield f"-- left out: {_as_line(key)}: {reason}"
        if not table.charset:
            yield "-- its character set is not known: it gets its database's"
        yield create_statement(table) + ";"

    def _line(self, row: TableVersionRow) -> str:
        self.versions += 1
        head = {"commit_ts": row.from_ts, "time": time_text(row.from_ts), "db": row.id.db, "table": row.id.table}
        if not row.is_live:
            return _json({**head, "query": f"DROP TABLE IF EXISTS {quote_name(row.id.table)}", "typed": True})
        table = self._zoned(row)
        zone = {"zone": "UTC"} if literal_timestamps(table) else {}
        return _json({**head, "query": show_create(table, unknown=_NOT_KEPT), "mode": "show", **zone})


def _as_line(text: str) -> str:
    return " ".join(text.split())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
