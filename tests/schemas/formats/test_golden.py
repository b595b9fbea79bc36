"""Every message of TiCDC's encoders decodes to the rows it was made from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.each import each
from tests.support.golden import FORMATS, Golden, both, case_check, case_module, cases
from ticdc_bridge.cli import main

ALL = [golden for name in FORMATS for golden in cases(name)]
DATE, DATETIME, TIMESTAMP, TIME, DECIMAL, BIGINT = 10, 12, 7, 11, 246, 8  # type codes of the meta


def test_the_cases_are_there() -> None:
    assert len(cases("avro")) >= 60
    assert len(cases("debezium")) >= 60
    assert len(cases("debezium-avro")) >= 48
    assert sum(len(g.messages()) for g in ALL) > 1500


@pytest.mark.parametrize("ddl", [False, True], ids=["", "ddl"])
@each("golden", ALL, ids=str)
def test_rows_are_those_of_the_meta(golden: Golden, ddl: bool) -> None:
    check = case_check(golden)
    score = check.check(golden.plain(ddl))
    assert score.differences == []
    assert score.rows == len(check.events)


def _cells(golden: Golden, ddl: bool) -> Iterator[tuple[str, Any, Any, Any, list[str]]]:
    """(where, column of the meta, value wanted, value decoded, the row's flags) of each cell of the rows."""
    shift = case_module().shift
    check = case_check(golden)
    lines = golden.plain(ddl)
    for event, line in zip(check.events, lines, strict=True):
        if event.kind != "row" or line["kind"] != "row":
            continue
        for side, want in (("before", event.before), ("after", event.after)):
            for name, got in (line[side] or {}).items():
                value = (want or {}).get(name)
                column = event.columns.get(name)
                if column is not None:
                    if column.type == TIMESTAMP and isinstance(value, str):
                        value = shift(value, golden.zone)
                    yield f"{line['offset']} {side}.{name}", column, value, got, line["flags"]


def _told(column: Any, want: Any, got: Any, flags: list[str], typed: bool, extension: bool) -> bool:
    """Whether the reader of a value that differs from the row's can know it."""
    name = column.name
    if want is None:
        return f"null_or_default:{name}" in flags
    if column.type == DECIMAL:
        return not extension or f"lossy_decimal:{name}" in flags  # without either, the message says "double"
    if column.type == BIGINT:
        return not extension and f"sign_unknown:{name}" in flags
    if column.type in (DATE, DATETIME) and (want[:4] == "0000" or "-00" in want):
        return got is None or f"temporal_zero_ambiguous:{name}" in flags
    if column.type in (DATE, DATETIME) and want[:4] < "0100":
        return True  # years below 100 are moved by TiCDC, and nothing tells
    if column.type in (DATETIME, TIME):  # only a definition tells the fraction digits
        return not typed and _unpadded(want) == _unpadded(got)
    # Empty text is the base64 of nothing, and the empty text: both are empty.
    return not extension and isinstance(want, dict) and (f"binary_or_text:{name}" in flags or not got)


def _unpadded(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


@each(
    ("golden", "ddl"),
    **both(
        g for g in [*cases("debezium"), *cases("debezium-avro")] if not g.meta["options"].get("debezium_disable_schema")
    ),
)
def test_debezium_value_that_is_not_the_rows_has_its_flag(golden: Golden, ddl: bool) -> None:
    """golden_check excuses what TiCDC's Debezium loses; the reader of our output learns it by a flag only."""
    equal = case_module().equal
    extension = bool(golden.meta["options"].get("enable_tidb_extension"))
    unflagged = [
        f"{where}: {want!r} → {got!r} {flags}"
        for where, column, want, got, flags in _cells(golden, ddl)
        if not equal(column, want, got) and not _told(column, want, got, flags, typed=ddl, extension=ddl or extension)
    ]
    assert unflagged == []


@each("golden", [g for g in cases("debezium") if g.meta["options"].get("debezium_disable_schema")], ids=str)
def test_debezium_without_schema_flags_every_value(golden: Golden) -> None:
    for where, column, _, got, flags in _cells(golden, ddl=False):
        if got is not None:
            assert f"untyped:{column.name}" in flags, where


@each("golden", cases("avro"), ids=str)
def test_avro_has_no_flag_but_an_unknown_op(golden: Golden) -> None:
    """Avro holds every value exactly; only insert and update may look the same."""
    blind = not (
        golden.meta["options"].get("enable_tidb_extension") or golden.meta["options"].get("avro_include_before_value")
    )
    for line in golden.plain():
        if line["kind"] == "row":
            assert line["flags"] == (["op_unknown"] if blind and line["op"] != "d" else [])


@pytest.mark.parametrize(
    "golden",
    [
        Golden("avro", "wide.before.ext1"),
        Golden("debezium", "wide.ext.schema"),
        Golden("debezium-avro", "pk_int.watermark"),
    ],
    ids=str,
)
def test_command_line_prints_the_same(golden: Golden, capfd: pytest.CaptureFixture[str]) -> None:
    command = ["decode", "--format", golden.format, "--out", "-"]
    command += ["--in", str(golden.messages_file), "--schemas", str(golden.meta_file), "--ddl", str(golden.meta_file)]
    code = main(command)
    out, err = capfd.readouterr()
    assert code == 0, err
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines == golden.plain(ddl=True)
    assert case_check(golden).check(lines).differences == []
    assert f"decode: messages in {len(golden.messages())}" in err
