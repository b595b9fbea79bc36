"""Simple and Canal-JSON: every row of TiCDC's own messages is the row it was made from, cell by cell."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from tests.support.each import each
from tests.support.golden import Golden, case_check, cases
from ticdc_bridge.schemas.formats.base import Context, Decoder
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.inspect import checksum
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import Bootstrap, DdlEvent, Message, RowChange, Watermark
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_one, plain_lines, transcode_one

ALL = [*cases("simple"), *cases("canal-json")]
BOTH = ("simple", "canal-json")
rules: Any = import_module("golden_rules")


def _named(name: str) -> Any:
    return replace(next(a for a in rules.ALLOWANCES if a.name == name), formats=BOTH)


# What these formats can't carry, each with its reason; anything else must be equal.
EXCUSES = (
    _named("enum_number"),  # Canal-JSON without content-compatible and without a definition
    rules.Allowance("no_commit_ts", ("canal-json",), "needs the extension", lambda c: (
        c.field == "commit_ts" and not c.options.get("enable_tidb_extension") and c.got is rules.ABSENT)),
    rules.Allowance("no_commit_ts_ddl", ("canal-json",), "needs the extension", lambda c: (
        c.field == "commit_ts" and not c.options.get("enable_tidb_extension") and c.got == "None")),
    rules.Allowance("no_ddl_type", BOTH, "a word such as ALTER, no ActionType", lambda c: (
        c.field == "ddl_type" and c.got == "None")),
    rules.Allowance("replaced_utf8", BOTH, "U+FFFD for bytes that are not UTF-8", lambda c: (
        isinstance(c.want, dict) and not c.column.binary and "\ufffd" in str(c.got))),
    rules.Allowance("large_message", BOTH, "cut to its handle key", lambda c: (
        c.options.get("large_message_handle_option") == "handle-key-only" and c.got is rules.ABSENT
        and not c.column.handle)),
    rules.Allowance("unchanged_column", ("canal-json",), "content-compatible: old has what changed", lambda c: (
        bool(c.options.get("content_compatible")) and c.field == "before" and c.got is rules.ABSENT)),
)  # fmt: skip


class _OneFile:
    """Claim-checks that all have the same content."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def fetch(self, name: str) -> bytes:
        return self.content


def _decoder(golden: Golden, ddl: bool, fetch: bool = False) -> Decoder:
    side = golden.side(ddl)
    context = Context(side.schemas, side.tables, side.options, golden.claims if fetch else None)
    return format_named(golden.format).decoder(context)


def _plain(golden: Golden, ddl: bool, fetch: bool = False) -> list[dict[str, Any]]:
    decoder = _decoder(golden, ddl, fetch)
    lines = [x for m in golden.messages() for x in plain_lines(decode_one(decoder, m), m)]
    return [dict(json.loads(json.dumps(line))) for line in lines]


@pytest.fixture
def excuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("golden_check"), "ALLOWANCES", EXCUSES)


def test_the_cases_are_there() -> None:
    assert len(cases("simple")) >= 50
    assert len(cases("canal-json")) >= 45
    kinds = Counter(json.loads(x)["kind"] for g in ALL for x in g.messages_file.read_text().splitlines())
    assert kinds["row"] > 500
    assert min(kinds["ddl"], kinds["bootstrap"], kinds["resolved"]) > 50


@pytest.mark.parametrize("ddl", [False, True], ids=["", "ddl"])
@each("golden", ALL, ids=str)
def test_rows_are_those_of_the_meta(golden: Golden, ddl: bool, excuses: None) -> None:
    check = case_check(golden)
    lines = _plain(golden, ddl, fetch=True)
    score = check.check([x for x in lines if x["kind"] != "bootstrap"])
    assert score.differences == []
    assert score.rows == len(check.events)
    bootstraps = sum(json.loads(x)["kind"] == "bootstrap" for x in golden.messages_file.read_text().splitlines())
    assert sum(x["kind"] == "bootstrap" for x in lines) == bootstraps
    allowed = {"invalid_utf8", "handle_key_only"} | ({"enum_number"} if golden.format == "canal-json" else set())
    assert {f.partition(":")[0] for x in lines for f in x.get("flags", ())} <= allowed


@each("golden", [g for g in ALL if "charset" in g.name and "avro" not in g.name], ids=str)
def test_replaced_bytes_are_flagged(golden: Golden) -> None:
    """Go escapes the U+FFFD it puts for bytes that are not UTF-8, and only that."""
    flags = [f for x in _plain(golden, ddl=False) for f in x.get("flags", ()) if f.startswith("invalid_utf8")]
    assert flags == ["invalid_utf8:l", "invalid_utf8:lt"]
    message = next(m for m in golden.messages() if m.value and b"\\ufffd" in m.value)
    assert message.value is not None
    event = _rows(golden, [replace(message, value=message.value.replace(b"\\ufffd", "\ufffd".encode()))])[0]
    assert not any(f.startswith("invalid_utf8") for f in event.flags)


def _rows(golden: Golden, messages: list[Message]) -> list[RowChange]:
    decoder = _decoder(golden, ddl=False)
    before = [m for m in golden.messages() if m.value and (b"BOOTSTRAP" in m.value or b"\x16\x02\x02" in m.value)]
    events = [e for m in [*before, *messages] for e in decoder.decode(m)]
    return [e for e in events if isinstance(e, RowChange)]


@each("golden", cases("simple"), ids=str)
def test_tables_of_the_stream_are_the_definitions(golden: Golden) -> None:
    """Types, sizes, elements, keys and NULLs as TiDB has them: what a target format needs."""
    tables = golden.definitions
    for event in golden.events():
        if not isinstance(event, RowChange) or golden.name.startswith("large.claimcheck"):
            continue
        version = tables.at(event.table.id, event.commit_ts)
        assert version is not None
        want = {c.name: c for c in version.table.columns}
        for column in event.table.columns:
            known = want[column.name]
            for name in ("type", "unsigned", "elements", "nullable", "primary_key", "handle_key", "virtual"):
                if (name == "virtual" and event.key_only) or "handle_key_only" in event.flags:
                    continue
                assert getattr(column, name) == getattr(known, name), (column.name, name)
            if column.type.name in ("decimal", "bit", "datetime", "timestamp", "time"):
                assert (column.length, column.scale) == (known.length, known.scale), column.name
            if not column.default_is_expr and column.type.name not in ("binary", "varbinary", "bit"):
                assert column.default == known.default, column.name
        assert [c.name for c in event.table.columns] == [c.name for c in version.table.columns]


@each("name", ["wide.json", "wide.avro"])
def test_simple_rows_whose_schema_was_not_seen(name: str) -> None:
    """With a definition they are typed by it; without, values come as they are, each flagged."""
    golden = Golden("simple", name)
    rows = [m for m, e in zip(golden.messages(), golden.events(), strict=True) if isinstance(e, RowChange)]
    whole = [e for e in golden.events() if isinstance(e, RowChange)]
    decoder = _decoder(golden, ddl=True)
    for message, want in zip(rows, whole, strict=True):
        [event] = decoder.decode(message)
        assert isinstance(event, RowChange)
        assert (event.before, event.after, event.flags) == (want.before, want.after, [])
    decoder = _decoder(golden, ddl=False)
    for message in rows:
        [event] = decoder.decode(message)
        assert isinstance(event, RowChange)
        shown = {**(event.before or {}), **(event.after or {})}
        assert {f"untyped:{n}" for n, v in shown.items() if v is not None} <= set(event.flags)
        assert all(c.vague for c in event.table.columns)


@each("name", ["checksum.json.checksum", "checksum.avro.checksum"])
def test_simple_checksums(name: str) -> None:
    """Both rows of an update; in table order after ADD COLUMN … FIRST; damage is seen."""
    golden = Golden("simple", name)
    for ddl in (False, True):
        rows = [e for e in golden.events(ddl) if isinstance(e, RowChange)]
        checks = [(n, c) for n, e in enumerate(rows) for c in checksum.verify(e)]
        assert [(n, c.side) for n, c in checks] == [
            (0, "after"), (1, "after"), (2, "after"), (3, "after"), (3, "before"), (4, "before"), (5, "after"),
            (6, "after"), (6, "before"),
        ]  # fmt: skip
        # Simple has no column ids: without a definition its own order, the table's, is all there is to try.
        # Row 5 has a value in the column that was added FIRST; in the others both orders are one sum.
        want = {n: ("id" if ddl and n != 5 else "table") for n in range(7)}
        assert [c.outcome for n, c in checks] == [want[n] for n, _ in checks]


def test_claim_checks_without_their_files_are_dead_letters() -> None:
    golden = Golden("simple", "large.claimcheck")
    errors = [x for x in _plain(golden, ddl=False) if x["kind"] == "error"]
    assert {x["code"] for x in errors} == {"CLAIM_CHECK"}
    assert len(errors) == 3
    assert all("--claim-check-dir" in x["detail"] and ".json" in x["detail"] for x in errors)


@each("file", [b"", b"[]", b'{"key":null}', b'{"key":null,"value":"!"}', b'{"value":"e30="}'])
def test_claim_check_files_that_are_none(file: bytes) -> None:
    golden = Golden("simple", "large.claimcheck")
    decoder = format_named("simple").decoder(Context(FileSchemas([]), None, Options(), _OneFile(file)))
    message = next(m for m in golden.messages() if m.value and b"claimCheckLocation" in m.value)
    with pytest.raises(WireError) as caught:
        decoder.decode(message)
    assert caught.value.code == ("MALFORMED" if b"e30" in file else "CLAIM_CHECK")


def test_a_claim_check_that_points_to_another() -> None:
    golden = Golden("simple", "large.claimcheck")
    message = next(m for m in golden.messages() if m.value and b"claimCheckLocation" in m.value)
    import base64

    again = json.dumps({"key": None, "value": base64.b64encode(message.value or b"").decode()}).encode()
    decoder = format_named("simple").decoder(Context(FileSchemas([]), None, Options(), _OneFile(again)))
    with pytest.raises(WireError, match="another file"):
        decoder.decode(message)


def test_handle_key_only_rows_are_flagged() -> None:
    for golden in (Golden("simple", "large.handlekeyonly"), Golden("canal-json", "large.handlekeyonly")):
        rows = [e for e in golden.events() if isinstance(e, RowChange)]
        assert [(e.op, e.flags, e.key_only) for e in rows] == [
            ("c", ["handle_key_only"], True),
            ("c", [], False),
            ("u", ["handle_key_only"], True),
            ("d", [], True),
        ]
        assert rows[0].after == {"id": "1"}


def test_the_kinds_of_events() -> None:
    golden = Golden("simple", "evolution.json")
    kinds = Counter(type(e) for e in golden.events())
    assert set(kinds) == {RowChange, DdlEvent, Bootstrap, Watermark}
    boot = next(e for e in golden.events() if isinstance(e, Bootstrap))
    assert boot.schema is not None
    assert boot.schema.id == TableId(boot.db, boot.table)
    assert [x["kind"] for x in golden.plain()][:2] == ["ddl", "bootstrap"]


@pytest.mark.parametrize("to", BOTH)
def test_they_are_not_written(to: str) -> None:
    with pytest.raises(SetupError, match="is read, not written"):
        CodecConfig(to, FileSchemas([]), Options()).encoder()


@each(
    ("told", "kind", "length", "scale", "elements", "unsigned"),
    [
        ("bigint(20) unsigned", "bigint", None, None, (), True),
        ("decimal(65,30)", "decimal", 65, 30, (), False),
        ("decimal(10,0) unsigned zerofill", "decimal", 10, 0, (), True),
        ("bit(10)", "bit", 10, None, (), False),
        ("timestamp(3)", "timestamp", None, 3, (), False),
        ("float(10,3)", "float", None, 3, (), False),
        (r"enum('a','b,c','d''e','f\\g',')')", "enum", None, None, ("a", "b,c", "d'e", "f\\g", ")"), False),
        ("set('','x')", "set", None, None, ("", "x"), False),
    ],
)
def test_canal_types(
    told: str, kind: str, length: int | None, scale: int | None, elements: tuple[str, ...], unsigned: bool
) -> None:
    from ticdc_bridge.schemas.formats.canal_json import column_of_type

    column = column_of_type("c", told, False)
    assert (column.type.name, column.length, column.scale, column.elements, column.unsigned) == (
        kind, length, scale, elements, unsigned,
    )  # fmt: skip


SAME = {("simple", ".json"): "ext1", ("simple", ".avro"): "ext1", ("canal-json", ".ext"): "ext1"}
AS_AVRO = [
    (golden, Golden("avro", f"{golden.name.removesuffix(suffix)}.{options}"))
    for (format_, suffix), options in SAME.items()
    for golden in cases(format_)
    if golden.name.endswith(suffix)
    and Golden("avro", f"{golden.name.removesuffix(suffix)}.{options}").meta_file.exists()
]


@each(("golden", "avro"), AS_AVRO, ids=str)
def test_written_as_avro_they_are_ticdcs_avro(golden: Golden, avro: Golden) -> None:
    """TiCDC encoded the same changes in each format: from these messages come its Avro messages, byte for byte."""
    decoder = golden.side(ddl=golden.format == "canal-json").decoder()
    encoder = CodecConfig("avro", avro.schemas, avro.options(on_lossy="flag")).encoder()
    results = [transcode_one(decoder, encoder, m) for m in golden.messages()]
    refused = [r.error.code for r in results if r.error]
    assert set(refused) == ({"MALFORMED"} if "collision" in golden.name else set())  # as TiCDC refuses it
    written = [(m.key, m.value) for r in results for m in r.out]
    want = [(m.key, m.value) for m in avro.messages()]
    if "charset" in golden.name and not golden.name.endswith(".avro"):
        assert written[0] == want[0]  # the others held bytes that are not UTF-8, which JSON has lost
        return
    assert written == want
