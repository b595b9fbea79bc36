"""Folders of TiCDC's storage sink: order of files, DDL, checkpoint, CSV in every option, and what is damaged."""

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.table import check_rows
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.canal_json.decoder import CanalJsonDecoder
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import Message, RowChange, Watermark
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.io import storage_sink
from ticdc_bridge.spark_jobs.io.endpoints import read_source
from ticdc_bridge.spark_jobs.io.locations import KafkaClient
from ticdc_bridge.spark_jobs.io.storage_csv import CsvDialect
from ticdc_bridge.spark_jobs.io.storage_sink import schema_files
from ticdc_bridge.spark_jobs.pipeline.storage_definitions import StorageDefinitions, stated_tables

V1, V2, V3 = 462413824000000001, 462413824000000101, 462413824000000201


def _column(name: str, kind: str, **more: str) -> dict[str, str]:
    return {"ColumnName": name, "ColumnType": kind, **more}


_COLUMNS = [
    _column("id", "INT", ColumnPrecision="11", ColumnNullable="false", ColumnIsPk="true"),
    _column("price", "DECIMAL", ColumnPrecision="10", ColumnScale="2"), _column("at", "DATETIME", ColumnScale="3"),
    _column("kind", "ENUM"), _column("raw", "VARBINARY", ColumnPrecision="20"),
    _column("big", "BIGINT UNSIGNED", ColumnPrecision="20"), _column("bits", "BIT", ColumnPrecision="4"),
    _column("note", "VARCHAR", ColumnPrecision="20"),
]  # fmt: skip


def _schema_file(
    folder: Path, version: int, query: str = "", columns: list[Any] = _COLUMNS, table: str = "orders"
) -> None:
    document = {
        "Table": table, "Schema": "shop", "Version": 1, "TableVersion": version, "Query": query, "Type": 5,
        "TableColumns": columns, "TableColumnsTotal": len(columns),
    }  # fmt: skip
    meta = folder / "shop" / table / "meta" if table else folder / "shop" / "meta"
    meta.mkdir(parents=True, exist_ok=True)
    (meta / f"schema_{version}_0123456789.json").write_text(json.dumps(document, indent=4))


def _canal(id_: int, commit_ts: int) -> bytes:
    return json.dumps({
        "id": 0, "database": "shop", "table": "orders", "pkNames": ["id"], "isDdl": False, "type": "INSERT", "es": 1,
        "ts": 1, "sql": "", "sqlType": {"id": 4}, "mysqlType": {"id": "int"}, "data": [{"id": str(id_)}], "old": None,
        "_tidb": {"commitTs": commit_ts},
    }).encode()  # fmt: skip


def _data_file(folder: Path, where: str, *lines: bytes, end: bytes = b"\r\n") -> Path:
    path = folder / "shop" / "orders" / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line + end for line in lines))
    return path


def _read(path: Path, **options: Any) -> list[Message | tuple[WireError, Message]]:
    return list(read_source(str(path), KafkaClient(), Options.of(options)))


def _events(path: Path, **options: Any) -> list[Any]:
    decoder = CanalJsonDecoder(Context(FileSchemas([])))
    messages = _read(path, **options)
    assert all(isinstance(m, Message) for m in messages), messages
    return [event for m in messages if isinstance(m, Message) for event in decoder.decode(m)]


def test_files_in_order_with_ddl_and_the_checkpoint(tmp_path: Path) -> None:
    """By table version, date and number (10 after 9); partitions and dispatchers apart; a DDL before its version."""
    _schema_file(tmp_path, V1, columns=_COLUMNS[:3])
    _schema_file(tmp_path, V2, "ALTER TABLE orders ADD COLUMN x INT")
    _schema_file(tmp_path, V3, "DROP TABLE orders", columns=[])
    _schema_file(tmp_path, V3 + 1, "DROP DATABASE shop", columns=[], table="")
    _data_file(tmp_path, f"{V2}/2026-01-02/CDC000001.json", _canal(7, V2 + 9))
    _data_file(tmp_path, f"{V2}/2026-01-01/CDC000001.json", _canal(6, V2 + 1))
    _data_file(tmp_path, f"{V1}/2025-12-31/CDC000010.json", _canal(5, V1 + 5))
    _data_file(tmp_path, f"{V1}/2025-12-31/CDC000009.json", _canal(3, V1 + 1), b"", _canal(4, V1 + 4))
    _data_file(tmp_path, f"{V1}/2025-12-31/meta/CDC.index", b"CDC000010.json")
    (tmp_path / "metadata").write_text(json.dumps({"checkpoint-ts": V3 + 5}))
    events = _events(tmp_path)
    shown = [_shown(event) for event in events]
    assert shown[:-1] == [
        "3", "4", "5", "ALTER TABLE orders ADD COLUMN x INT", "6", "7", "DROP TABLE orders", "DROP DATABASE shop",
    ]  # fmt: skip
    assert shown[-1] == Watermark("canal-json", V3 + 5)
    messages = [m for m in _read(tmp_path) if isinstance(m, Message)]
    assert [(m.topic, m.partition, m.offset) for m in messages[:2]] == [("shop_orders", 0, 0), ("shop_orders", 0, 1)]
    tables = StorageDefinitions(schema_files(str(tmp_path)))
    version = tables.at(messages_table := events[0].table.id, V1 + 1)
    assert messages_table == ("shop", "orders")
    assert version is not None
    assert [(c.name, c.type.name, c.length, c.scale) for c in version.table.columns[:3]] == [
        ("id", "int", None, None), ("price", "decimal", 10, 2), ("at", "datetime", None, 3),
    ]  # fmt: skip


def _shown(event: Any) -> Any:
    return event.after and event.after["id"] if isinstance(event, RowChange) else getattr(event, "query", event)


def test_folders_of_partitions_and_of_one_table(tmp_path: Path) -> None:
    _schema_file(tmp_path, V1)
    _data_file(tmp_path, f"{V1}/105/2026/CDC000001.json", _canal(2, V1 + 2))
    _data_file(tmp_path, f"{V1}/104/2026/CDC000002.json", _canal(1, V1 + 1))
    _data_file(tmp_path, f"{V1}/CDC_5c7f_000001.json", _canal(0, V1 + 1))
    _data_file(tmp_path, f"{V2}/CDC000001.json.gz").write_bytes(gzip.compress(_canal(3, V2 + 1)))

    def check(row: tuple[str, list[str]]) -> None:
        assert [e.after["id"] for e in _events(tmp_path / row[0])] == row[1]

    rows = (("", ["0", "1", "2", "3"]), ("shop", ["0", "1", "2", "3"]), ("shop/orders", ["0", "1", "2", "3"]),
            (f"shop/orders/{V1}", ["0", "1", "2"]), (f"shop/orders/{V1}/104/2026", ["1"]),
            (f"shop/orders/{V1}/105/2026/CDC000001.json", ["2"]))  # fmt: skip
    check_rows(rows, check)


class _Csv(NamedTuple):
    what: str
    lines: tuple[bytes, ...]
    options: dict[str, Any]
    expected: tuple[tuple[str, int | None, dict[str, Any] | None, dict[str, Any] | None], ...]


_ROW: dict[str, Any] = {
    "id": "1", "price": "2.50", "at": "2026-01-01 10:00:00.500", "kind": "1", "raw": b"\x00\xff", "big":
    "18446744073709551615", "bits": b"\x05", "note": 'a "b", c\nd',
}  # fmt: skip
_NULLS = {"id": "1", **dict.fromkeys(list(_ROW)[1:])}
_REST = b'1,"2.50","2026-01-01 10:00:00.500","1","AP8=",18446744073709551615,5,"a ""b"", c\nd"'
_NULL_REST = b"1," + b",".join([b"\\N"] * 7)
_TS = b"%d" % (V1 + 5)
_NAMES = ",".join(_ROW).encode()
_CSV = (
    _Csv("no commit_ts", (b'"I","orders","shop",' + _REST,), {}, (("c", None, None, _ROW),)),
    _Csv("commit_ts", (b'"U","orders","shop",' + _TS + b"," + _REST,), {}, (("u", V1 + 5, None, _ROW),)),
    _Csv("delete", (b'"D","orders","shop",' + _TS + b"," + _NULL_REST,), {}, (("d", V1 + 5, _NULLS, None),)),
    _Csv("old rows", (
        b'"D","orders","shop",' + _TS + b",true," + _NULL_REST, b'"I","orders","shop",' + _TS + b",true," + _REST,
        b'"I","orders","shop",' + _TS + b",false," + _NULL_REST,
        b'"D","orders","shop",' + _TS + b",false," + _NULL_REST,
    ), {}, (("u", V1 + 5, _NULLS, _ROW), ("c", V1 + 5, None, _NULLS), ("d", V1 + 5, _NULLS, None))),
    _Csv("old rows without commit_ts", (
        b'"D","orders","shop",true,' + _NULL_REST, b'"I","orders","shop",true,' + _REST,
    ), {}, (("u", None, _NULLS, _ROW),)),
    _Csv("hexadecimal", (b'"I","orders","shop",' + _REST.replace(b"AP8=", b"00ff"),),
         {"csv_binary_encoding_method": "hex"}, (("c", None, None, _ROW),)),
    _Csv("delimiter of two characters", (
        b'"I"$^"orders"$^"shop"$^1$^"2.50"$^"2026-01-01 10:00:00.500"$^"1"$^"AP8="$^18446744073709551615$^5$^'
        b'"a ""b"", c\nd"',
    ), {"csv_delimiter": "$^"}, (("c", None, None, _ROW),)),
    _Csv("another quote", (
        b"'I','orders','shop'," + _REST.replace(b'""', b"@").replace(b'"', b"'").replace(b"@", b'"'),),
         {"csv_quote": "'"}, (("c", None, None, _ROW),)),
    _Csv("no quote", (
        b'I,orders,shop,1,2.50,2026-01-01 10:00:00.500,1,AP8=,18446744073709551615,5,a "b"\\, c\\nd',
        b"I,orders,shop,1,\\N,\\N,\\N,\\N,\\N,\\N,\\\\N",
    ), {"csv_quote": ""}, (("c", None, None, _ROW), ("c", None, None, {**_NULLS, "note": "\\N"}))),
    _Csv("another null", (b'"I","orders","shop",1,,,,,,,""',), {"csv_null": ""},
         (("c", None, None, {**_NULLS, "note": ""}),)),
    _Csv("a text like the null", (b'"I","orders","shop",1' + b",\\N" * 6 + b',"\\N"',), {},
         (("c", None, None, {**_NULLS, "note": "\\N"}),)),
    _Csv("names of columns", (b"ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema," + _NAMES,
                              b'"I","orders","shop",' + _NULL_REST), {}, (("c", None, None, _NULLS),)),
    _Csv("names of columns, of all kinds", (
        b"ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,ticdc-meta$commit-ts,ticdc-meta$is-update," + _NAMES,
        b'"I","orders","shop",' + _TS + b",false," + _NULL_REST,
        b'"I","orders","shop",' + _TS + b',false,"1",' + _NULL_REST,  # with a handle key, which has no name
    ), {}, (("c", V1 + 5, None, _NULLS),) * 2),
    _Csv("names of some columns", (
        b"ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,ticdc-meta$commit-ts,id,note",
        b'"D","orders","shop",' + _TS + b',7,"x"',
    ), {}, (("d", V1 + 5, {"id": "7", "note": "x"}, None),)),
)  # fmt: skip


def test_csv(tmp_path: Path) -> None:
    def check(csv: _Csv) -> None:
        for number, end in enumerate((b"\r\n", b"\n", b";\n", b"|\r\n", b"\x1e")):
            given = {} if number < 2 else {"terminator": end.decode()}
            folder = tmp_path / f"{csv.what}{number}"
            _schema_file(folder, V1)
            path = _data_file(folder, f"{V1}/CDC000001.csv", *csv.lines, end=end)
            for location in (folder, path):
                events = _events(location, **csv.options, **given)
                assert [(e.op, e.commit_ts, e.before, e.after) for e in events] == list(csv.expected)
                assert not any(e.flags for e in events)
                assert {e.key for e in events} == {("id",)}

    check_rows(_CSV, check, lambda csv: csv.what)


def test_another_terminator(tmp_path: Path) -> None:
    """It is asked for, never read as the end of the last value; of JSON too."""
    texts = b"I,orders,shop," + b"\\N," * 7 + b"x"
    for name, row, options, is_read in (
        ("quotes", b'"I","orders","shop",' + _NULL_REST, {}, False),
        ("no quotes", texts, {"csv_quote": ""}, False),
        ("a text that ends so", texts + b";", {"csv_quote": "", "terminator": "\n"}, True),
    ):
        folder = tmp_path / name
        _schema_file(folder, V1)
        _data_file(folder, f"{V1}/CDC000001.csv", row, row, end=b"\n" if is_read else b";\n")
        items = _read(folder, **options)
        failed = [item[0].detail for item in items if isinstance(item, tuple)]
        assert len(failed) == (0 if is_read else 2), name
        assert all("terminator" in detail for detail in failed)
    for end, refused in ((b";\n", 3), (b"|", 1), (b"\r\n", 0)):
        folder = tmp_path / f"json {refused}"
        _schema_file(folder, V1)
        rows = [_canal(n, V1 + n) for n in range(3)]
        _data_file(folder, f"{V1}/CDC000001.json", *rows, end=end)
        assert [e.after for e in _events(folder, terminator=end.decode())] == [{"id": str(n)} for n in range(3)]
        failed = [item[0].detail for item in _read(folder) if isinstance(item, tuple)]
        assert len(failed) == refused
        assert all("terminator" in detail for detail in failed)


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read at once is refused, never cut."""
    monkeypatch.setattr(storage_sink, "_MOST_FILE", 20)
    for kind, row in (("json", _canal(1, V1)), ("csv", b'"I","orders","shop",' + _NULL_REST)):
        folder = tmp_path / kind
        _schema_file(folder, V1)
        _data_file(folder, f"{V1}/CDC000001.{kind}", row, row, end=b";\n")
        with pytest.raises(SetupError, match="more than"):
            _read(folder, terminator=";\n")


def test_csv_rows_that_are_none(tmp_path: Path) -> None:
    """Each is an error with the row's bytes; those around it are read."""
    good = b'"I","orders","shop",' + _NULL_REST

    def check(row: tuple[str, list[bytes], int, str]) -> None:
        what, lines, errors, reason = row
        folder = tmp_path / what
        _schema_file(folder, V1)
        _data_file(folder, f"{V1}/CDC000001.csv", good, *lines)
        items = _read(folder)
        failed = [item for item in items if isinstance(item, tuple)]
        assert len(failed) == errors
        assert all(error.code == "BAD_LINE" and reason in error.detail for error, _ in failed)
        assert (failed[0][1].value or b"?") in b"\r\n".join(lines)
        assert isinstance(items[0], Message)

    rows = (
        ("too few", [good[:-3], good], 1, "values, for 8 columns"),
        ("too many", [good + b",1,1,1,1"], 1, "values"),
        ("another table", [good.replace(b"orders", b"items"), good], 1, "shop.items"),
        ("no operation", [good.replace(b'"I"', b'"X"'), good], 1, "'X'"),
        ("no base64", [b'"I","orders","shop",' + _REST.replace(b"AP8=", b"A?"), good], 1, "column 'raw'"),
        ("another null string", [good[:-2] + b"NULL", good], 1, "column 'note': a text outside quotes"),
        ("another terminator after a NULL", [good + b"||"], 1, "terminator"),
        (
            "texts without quotes",
            [_REST.replace(b'"AP8="', b"AP8=").join((b'"I","orders","shop",', b"")), good],
            1,
            "'raw'",
        ),
        ("more after a quote", [b'"I"x,"orders"', good], 1, "in quotes"),
        ("a quote that does not end", [b'"I","orders', good], 1, "in quotes"),
        ("an old row alone", [good.replace(b'shop",', b'shop",true,').replace(b'"I"', b'"D"'), good], 2, "old row"),
        ("an old row at the end", [good.replace(b'shop",', b'shop",true,').replace(b'"I"', b'"D"')], 1, "cut"),
    )
    check_rows(rows, check, lambda row: row[0])


def test_what_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    path = _data_file(folder, f"{V1}/CDC000001.csv", b'"I"')
    with pytest.raises(SetupError, match="meta/schema_"):
        _read(path)
    (path.parent / "schema.json").write_text('{"Schema":"shop","Table":"orders"}')
    with pytest.raises(SetupError, match="TableVersion"):
        _read(folder)
    (path.parent / "schema.json").write_text("[")
    with pytest.raises(SetupError, match=r"schema\.json: no schema file of a storage sink: a value is missing"):
        _read(path)


def test_a_schema_file_beside_the_data(tmp_path: Path) -> None:
    """As releases before 6.5.2 wrote it."""
    path = _data_file(tmp_path, f"{V1}/CDC000001.csv", b'"I","orders","shop",1')
    document = {"Schema": "shop", "Table": "orders", "TableVersion": V1, "TableColumns": _COLUMNS[:1]}
    (path.parent / "schema.json").write_text(json.dumps(document))
    assert [e.after for e in _events(tmp_path)] == [{"id": "1"}]


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files that are none of the sink's are named."""
    folder = tmp_path / "sink"
    _schema_file(folder, V1)
    _data_file(folder, f"{V1}/CDC000001.csv", b'"I","orders","shop",' + _TS + b"," + _REST)
    (folder / "notes.txt").write_text("x")
    assert main(["decode", "--format", "canal-json", "--in", str(folder), "--out", str(tmp_path / "o.jsonl")]) == 0
    [line] = [json.loads(text) for text in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert (line["table_version"], line["after"]["kind"]) == (V1, "1")
    assert "1 file that no storage sink writes: notes.txt" in capsys.readouterr().err


def test_another_format_than_the_sinks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _data_file(tmp_path, f"{V1}/CDC000001.json", _canal(1, V1 + 1))
    assert main(["decode", "--format", "open", "--in", str(tmp_path), "--out", "-"]) == 2
    assert "--format canal-json" in capsys.readouterr().err
    assert main(["decode", "--format", "auto", "--in", str(tmp_path), "--out", "-"]) == 0


def test_csv_text_is_taken_apart_in_linear_time() -> None:
    dialect = CsvDialect(",", '"', "\\N")
    for text in ('"' * 200_001, "," * 200_000, '""' * 100_000, "\n" * 200_000):
        assert sum(1 for _ in dialect.rows(text)) <= 1


def _defined(folder: Path) -> Any:
    return StorageDefinitions(schema_files(str(folder)))


_SHOP = [_column("id", "BIGINT", ColumnPrecision="20", ColumnIsPk="true"), _column("sum", "INT", ColumnPrecision="11"),
         _column("name", "VARCHAR", ColumnPrecision="20"), _column("kind", "ENUM"), _column("tags", "SET")]  # fmt: skip
_CREATE = (
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, sum INT GENERATED ALWAYS AS (id+1) VIRTUAL, name VARCHAR(20), "
    "kind ENUM('a','it''s'), tags SET('x','y'))"
)
_STORED = {"id": "3", "name": "n", "kind": "it's", "tags": "x,y"}
_STORED_CSV = b'3,"n","it\'s","x,y"'


class _Left(NamedTuple):
    what: str
    lines: tuple[bytes, ...]
    query: str = ""
    columns: list[dict[str, Any]] = _SHOP
    quote: str = '"'
    row: dict[str, str] | None = None  # None: refused


def test_csv_without_the_virtual_columns(tmp_path: Path) -> None:
    """A statement of the folder or a header tells them; where nothing does, a row that lacks one is never shifted."""
    head, bool_ = b'"I","orders","shop",', b"false,"
    names = b"ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,id,name,kind,tags"
    whole = [*_SHOP[:1], *_SHOP[2:]]
    ts = _TS + b","
    bare = _STORED_CSV.replace(b'"', b"").replace(b"x,y", b"x\\,y")
    rows = (
        _Left("a statement", (head + _STORED_CSV, head + _STORED_CSV), _CREATE, row=_STORED),
        _Left("a statement, commit_ts and update", (head + ts + bool_ + _STORED_CSV,), _CREATE, row=_STORED),
        _Left("a header", (names, head + _STORED_CSV), row=_STORED),
        _Left("no virtual column", (head + ts + _STORED_CSV,), columns=whole, row=_STORED),
        _Left("nothing tells", (head + _STORED_CSV,)),
        _Left("commit_ts where id is", (head + ts + _STORED_CSV, head + ts + _STORED_CSV)),
        _Left("false where id is", (head + ts + bool_ + _STORED_CSV,)),
        _Left("false where id is, no quotes", (b"I,orders,shop,false," + bare,), quote=""),
        _Left("a handle key where id is", (head + b'"3",' + _STORED_CSV,)),
        _Left("a statement of other columns", (head + _STORED_CSV,), "CREATE TABLE orders (id INT, x INT AS (1))"),
        _Left("an unknown column in the header", (names + b",more", head + _STORED_CSV + b",1")),
    )

    def check(row: _Left) -> None:
        folder = tmp_path / row.what
        _schema_file(folder, V1, row.query, row.columns)
        path = _data_file(folder, f"{V1}/CDC000001.csv", *row.lines)
        for location in (folder, path):
            tables, options = _defined(location), Options.of({"csv_quote": row.quote})
            items = list(read_source(str(location), KafkaClient(), options, stated_tables(tables)))
            messages = [m for m in items if isinstance(m, Message)]
            decoder = CanalJsonDecoder(Context(FileSchemas([]), tables))
            events = [e for m in messages for e in decoder.decode(m) if isinstance(e, RowChange)]
            errors = [item[0] for item in items if isinstance(item, tuple)]
            assert all("--ddl says which" in e.detail or "'more'" in e.detail for e in errors)
            assert (row.row is None) == bool(errors)
            assert all(e.after == row.row and not e.flags for e in events)
            assert len(events) + len(errors) == len(row.lines) - (row.lines[0].startswith(b"ticdc") and not errors)

    check_rows(rows, check, lambda row: row.what)


def test_elements_of_enum_and_set(tmp_path: Path) -> None:
    """From the schema file (2026), else from the folder's statements; else the names are read, and the list is open."""
    listed = [*_SHOP[:3], {**_SHOP[3], "ColumnElems": ["a", "it's"]}, {**_SHOP[4], "ColumnElems": ["x", "y", "b\\,"]}]
    elements = {"kind": ("a", "it's"), "tags": ("x", "y", "b\\,")}
    rows: tuple[tuple[str, str, Any, Any], ...] = (
        ("listed", "", listed, elements),
        ("stated", _CREATE.replace("VIRTUAL", "STORED"), _SHOP, {**elements, "tags": ("x", "y")}),
        ("open", "", _SHOP, {"kind": (), "tags": ()}),
    )

    def check(row: tuple[str, str, Any, Any]) -> None:
        folder = tmp_path / row[0]
        _schema_file(folder, V1, row[1], row[2])
        _data_file(folder, f"{V1}/CDC000001.csv", b'"U","orders","shop",' + _TS + b',3,4,"n","it\'s","x,y"')
        version = _defined(folder).at(TableId("shop", "orders"), V1 + 5)
        assert version.commit_ts == V1
        assert {n: version.table.by_name[n].elements for n in row[3]} == row[3]
        [event] = [e for e in _events(folder) if isinstance(e, RowChange)]
        assert event.after == {**_STORED, "sum": "4"}
        assert not event.flags

    check_rows(rows, check, lambda row: row[0])


def test_folders_by_table_id(tmp_path: Path) -> None:
    """`use-table-id-as-path`: names are the schema file's; a database's statements stay under its name."""
    document = {"Schema": "shop", "Table": "orders", "TableVersion": V1, "Query": "", "TableColumns": _COLUMNS[:1]}
    meta = tmp_path / "sink" / "105" / "meta"
    meta.mkdir(parents=True)
    (meta / f"schema_{V1}_0123456789.json").write_text(json.dumps(document))
    for name, id_ in ((f"{V1}/2026-01-02/CDC000001.csv", 2), (f"{V1}/2026-01-01/CDC_ab12_000001.csv", 1)):
        path = tmp_path / "sink" / "105" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b'"I","orders","shop",%d' % id_)
    assert [e.after for e in _events(tmp_path / "sink")] == [{"id": "1"}, {"id": "2"}]
    assert {m.topic for m in _read(tmp_path / "sink") if isinstance(m, Message)} == {"shop_orders"}
