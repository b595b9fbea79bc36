"""What a summary warns of: no rows, none of the table asked for, definitions that were not used."""

from typing import Any

from tests.support.each import each
from tests.support.rows import change, table
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import RowChange, Watermark
from ticdc_bridge.schemas.model.table import ColumnMismatch, DefinitionMismatch, TableId
from ticdc_bridge.spark_jobs.pipeline.result import MessageResult, Summary

ID = TableId("shop", "orders")


def _row(name: str = "orders", mismatch: DefinitionMismatch | None = None) -> RowChange:
    row = change(table(name=name), {})
    row.mismatch = mismatch
    return row


def _mismatch(column: str, defined: str = "int") -> DefinitionMismatch:
    return DefinitionMismatch(ID, 1, (ColumnMismatch(column, "bigint", defined),))


FAILED = MessageResult(error=WireError("EMPTY_RECORD", details="x"))
MARK, GONE = MessageResult([Watermark("open", 1)]), MessageResult(skipped=["tombstone"])


@each(("results", "out", "asked", "warnings"), [
    ([MessageResult([_row()])], 1, ID, []),
    ([MessageResult([_row("ORDERS")])], 1, TableId("Shop", "Orders"), []),
    ([MessageResult([_row()])], 1, None, []),
    ([MessageResult([_row("carts")]), MARK], 0, ID,
     ["table shop.orders: no rows in 2 messages: shop.carts (1)"]),
    ([MessageResult([_row("carts")]), FAILED], 0, ID,
     ["table shop.orders: no rows in 2 messages: shop.carts (1), error 1"]),
    ([MARK, MARK, GONE], 2, None, ["no rows in 3 messages: tombstone 1, watermark 2"]),
    ([GONE, FAILED], 0, None, ["no rows in 2 messages: error 1, tombstone 1"]),
    ([GONE, FAILED], 0, ID,
     ["table shop.orders: no rows in 2 messages: error 1, tombstone 1"]),
    ([FAILED, FAILED], 0, None, []),
    ([], 0, ID, []),
    ([MessageResult([_row()], skipped=["duplicate"])], 0, None, ["no rows in 1 message: duplicate 1"]),
    ([MessageResult([_row(mismatch=_mismatch("v"))])] * 2, 2, None,
     ["table shop.orders: column v is bigint in the message, int in the definition; 2 rows were read without the"
      " definition: give the one that was in force (--ddl, --history)"]),
    ([MessageResult([_row(mismatch=_mismatch("w", ""))])], 1, None,
     ["table shop.orders: column w (bigint in the message) is not in the definition; 1 row was read without the"
      " definition: give the one that was in force (--ddl, --history)"]),
])  # fmt: skip
def test_warnings(results: list[MessageResult], out: int, asked: TableId | None, warnings: list[str]) -> None:
    summary = Summary(out=out)
    for result in results:
        summary.count(result)
    assert summary.warnings(asked) == warnings
    reported = Summary()  # as a Spark worker tells of it
    reported.add(summary.tally())
    assert reported.mismatches == summary.mismatches


def test_many_definitions_are_one_warning_more() -> None:
    summary, count = Summary(out=1), 60
    results: list[Any] = [MessageResult([_row(mismatch=_mismatch(f"v{n}"))]) for n in range(count)]
    for result in results:
        summary.count(result)
    assert summary.mismatches.total() == count
    assert len(summary.warnings()) == 51
    assert summary.new_mismatches(summary) == []
