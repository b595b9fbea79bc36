"""Risks that a statement has for its table as a whole: its rows, its key, its name. One row a rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.service.ddl_check.table_changes import TableChange
from ticdc_bridge.service.ddl_check.target_schemas import SubjectTarget

Severity = Literal["loss", "break", "change"]
"""What `risks` says of each."""
AVRO: Final = ("avro", "debezium-avro")


@dataclass(frozen=True, slots=True)
class TableRule:
    id: str
    severity: Severity
    when: Callable[[TableChange, SubjectTarget | None], bool]
    text: Callable[[TableChange, SubjectTarget | None], str] | str


def _no_ddl(target: SubjectTarget | None) -> bool:
    return target is not None and target.protocol in AVRO


def _unsent_note(target: SubjectTarget | None) -> str:
    return _UNSENT if _no_ddl(target) else ""


def _is_keyless(table: Table | None) -> bool:
    return table is not None and not table.handle_key


def _has_both(change: TableChange) -> bool:
    return change.before is not None and change.after is not None


def _keys(change: TableChange) -> str:
    old, new = change.handle_keys
    return f"({', '.join(old) or 'none'}) becomes ({', '.join(new) or 'none'})"


def _is_moved(change: TableChange, _: SubjectTarget | None) -> bool:
    """Whether columns that stay are in another order, or new ones stand between them."""
    if not _has_both(change) or change.before is None or change.after is None:
        return False
    order = {new.name: place for place, (_, new) in enumerate(change.pairs)}
    new_names = {id(old): new.name for old, new in change.pairs}
    olds = [new_names[id(old)] for old in change.before.columns if id(old) in new_names]
    names = [c.name for c in change.after.columns]
    return olds != sorted(olds, key=lambda n: order[n]) or names[: len(order)] != list(order)


_UNSENT = " Avro sends no DDL and no row event for it: what is downstream stays as it is"
TABLE_RULES: Final = (
    TableRule("no-handle-key", "loss",
              lambda c, t: _is_keyless(c.after) and not _is_keyless(c.before),
              "the table has neither a primary key nor a unique key over NOT NULL columns: TiCDC does not replicate it "
              "unless force-replicate is on (Avro refuses force-replicate), and then rows can't be distinguished"),
    TableRule("handle-key", "loss",
              lambda c, t: _has_both(c) and bool(c.handle_keys[1]) and c.handle_keys[0] != c.handle_keys[1],
              lambda c, t: f"the key that identifies rows {_keys(c)}: message keys, partitions by key and "
              "compaction change; old and new rows of one record have different keys"),
    TableRule("key-order", "change",
              lambda c, t: _has_both(c) and c.primary_keys[0] != c.primary_keys[1]
              and c.handle_keys[0] == c.handle_keys[1],
              "the primary key has its columns in another order: Debezium's connector orders key fields by the index, "
              "TiCDC by the table"),
    TableRule("renamed-table", "change", lambda c, t: c.is_renamed,
              lambda c, t: f"{c.before and c.before.id} becomes {c.after and c.after.id}: schema names, and topics "
                           "and subjects that are named after the table, change; consumers must follow, and table "
                           "filters must match the new name"),
    TableRule("dropped-table", "loss", lambda c, t: c.after is None,
              lambda c, t: "the table and its rows are gone; no delete events are sent for them."
              + _unsent_note(t)
              + " Its subjects stay: a new table of this name is checked against their versions"),
    TableRule("truncated", "loss", lambda c, t: c.rows == "truncated",
              lambda c, t: "all rows are gone without delete events." + _unsent_note(t)),
    TableRule("partitions-dropped", "loss", lambda c, t: c.rows == "partitions dropped",
              lambda c, t: "the rows of these partitions are gone without delete events." + _unsent_note(t)),
    TableRule("partitions-exchanged", "loss", lambda c, t: c.rows == "partitions exchanged",
              lambda c, t: "a partition and a table exchange rows without row events." + _unsent_note(t)),
    TableRule("partitions-moved", "change", lambda c, t: c.rows == "partitions moved",
              "the physical tables get other ids (`ptn` of Open and Craft); rows are not sent again"),
    TableRule("recovered", "loss", lambda c, t: c.rows == "recovered",
              "the rows come back without insert events: downstream lacks them"),
    TableRule("column-order", "change", _is_moved,
              "columns change their places: readers that go by position, not by name, read other columns"),
    TableRule("checksum-order", "break",
              lambda c, t: t is not None and t.options.enable_row_checksum and _is_moved(c, t),
              "row checksums are on and columns are not in the order of their ids any more: TiCDC's encoder mixes "
              "columns up or fails at the first row"),
)  # fmt: skip
