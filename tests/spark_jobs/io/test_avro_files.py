"""Avro object container files: fastavro's are read, ours are read by fastavro; damage is told with its place."""

import contextlib
import io
import json
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from tests.support.fuzz import SEED
from tests.support.golden import Golden
from tests.support.record_outputs import run_quietly
from tests.support.table import check_rows
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.codec import avro as binary
from ticdc_bridge.schemas.codec import compression
from ticdc_bridge.schemas.formats.framing import unframe
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.io.archive_files import archive_files
from ticdc_bridge.spark_jobs.io.avro_files import ArchiveWriter, archived_schemas, read_archive
from ticdc_bridge.spark_jobs.io.endpoints import read_source
from ticdc_bridge.spark_jobs.io.locations import KafkaClient

SYNC = bytes(range(16))
SCHEMA = '{"type":"record","name":"t","namespace":"default.d","fields":[{"name":"a","type":"string"}]}'


def _container(blocks: bytes, schema: str | None = SCHEMA, codec: str = "null") -> bytes:
    pairs = [(b"avro.codec", codec.encode())] + ([(b"avro.schema", schema.encode())] if schema is not None else [])
    entries = b"".join(binary.write_bytes(name) + binary.write_bytes(value) for name, value in pairs)
    return b"Obj\x01" + binary.write_long(len(pairs)) + entries + b"\x00" + SYNC + blocks


def _block(count: int, data: bytes, size: int | None = None, sync: bytes = SYNC) -> bytes:
    return binary.write_long(count) + binary.write_long(len(data) if size is None else size) + data + sync


def _deflated(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


def _values(golden: Golden) -> tuple[str, list[bytes]]:
    """The schema that most values have, and their bodies."""
    by_id: dict[Any, list[bytes]] = {}
    for message in golden.messages():
        if message.value and message.value[0] == 0:
            by_id.setdefault(unframe(message.value, "value")[0], []).append(message.value[5:])
    found = max(by_id, key=lambda key: len(by_id[key]))
    return golden.schemas.by_id(found, "value"), by_id[found]


def _without_defaults(text: str) -> Any:
    """A schema as fastavro takes it: it checks what goavro lets pass, TiCDC's text for numbers."""
    schema = json.loads(text)
    for field in schema["fields"]:
        field.pop("default", None)
    return schema


def test_files_of_each_codec_give_the_bytes_of_each_record(tmp_path: Path) -> None:
    text, bodies = _values(Golden("avro", "wide.ext1"))
    schema = fastavro.parse_schema(_without_defaults(text))
    rows = [fastavro.schemaless_reader(io.BytesIO(body), schema, None) for body in bodies] * 300

    def check(codec: str) -> None:
        path = tmp_path / "tidb_test_wide+3+0000000040.avro"
        with path.open("wb") as file:
            fastavro.writer(file, schema, rows, codec=codec)
        messages = list(read_archive(path))
        assert [unframe(m.value or b"", "value")[1] for m in messages] == [18] * len(rows)
        assert [(m.value or b"")[18:] for m in messages] == bodies * 300
        assert {(m.key, m.topic, m.partition, m.offset) for m in messages} == {(None, "tidb_test_wide", 3, None)}
        entry = archived_schemas([path])[0]
        assert (entry.subject, entry.id) == ("tidb_test_wide-value", unframe(messages[0].value or b"", "value")[0])

    check_rows(["null", "deflate", "snappy", "bzip2", "xz"], check)


def test_what_is_written_fastavro_reads(tmp_path: Path) -> None:
    rows = [{"a": f"row {n} " + "é" * (n % 50)} for n in range(20_000)]
    writer = ArchiveWriter(tmp_path / "t.avro", SCHEMA)
    for row in rows:
        writer.write(Message(None, binary.write_bytes(row["a"].encode())))
    assert archive_files(str(tmp_path)) == []
    writer.close()
    with (tmp_path / "t.avro").open("rb") as file:
        read = fastavro.reader(file)
        assert list(read) == rows
        assert read.metadata["avro.schema"] == SCHEMA
    assert len(list(read_archive(tmp_path / "t.avro"))) == len(rows)
    other = ArchiveWriter(tmp_path / "t.avro", SCHEMA)
    other.abandon()
    assert len(list(read_archive(tmp_path / "t.avro"))) == len(rows)


_TEXT = binary.write_bytes(b"abc")
_SNAPPED = compression.snap(_TEXT) + bytes(4)
_ARRAY = SCHEMA.replace('"string"', '{"type":"array","items":"boolean"}')
DAMAGED: list[tuple[str, bytes]] = [
    ("byte 0: the file ends in its first four bytes: 0 bytes", b""),
    ("byte 0: an Avro container begins with Obj", b'{"key_b64":null}'),
    ("the file ends in its header", _container(b"")[:40]),
    ("more than 65536 items", b"Obj\x01" + binary.write_long(70_000) + bytes(200_000)),
    ("its header has more than 16777216 bytes", b"Obj\x01\x02\x02a" + binary.write_long(1 << 40) + bytes(40 << 20)),
    ("a block of 1099511627776 bytes, at most", _container(_block(1, b"", 1 << 40))),
    ("a block of -1 bytes", _container(_block(1, b"", -1))),
    ("the file ends in a block of 9 bytes: 4 bytes", _container(_block(1, _TEXT, 9, b""))),
    ("a block's size: a number goes on past the end", _container(b"\x02")),
    ("a number has more than ten bytes", _container(b"\x80" * 20)),
    ("does not end with the file's sync marker", _container(_block(1, _TEXT, sync=bytes(16)))),
    ("5 records in 4 bytes", _container(_block(5, _TEXT))),
    ("-1 records in 4 bytes", _container(_block(-1, _TEXT))),
    ("record 1 of 2 of the block can't be read", _container(_block(2, _TEXT))),
    ("record 0 of 1 of the block can't be read: it ends too early", _container(_block(1, b"\x08abc"))),
    ("4 bytes are left in the block after its 1 records", _container(_block(1, _TEXT * 2))),
    ("record 0 of 1", _container(_block(1, binary.write_long(1 << 60) + b"\x01\x00"), _ARRAY)),
    ("the block can't be read: the compressed data is damaged", _container(_block(1, b"\xff" * 9), codec="deflate")),
    ("it is cut after 2 bytes", _container(_block(1, _deflated(_TEXT)[:-3]), codec="deflate")),
    ("inflated it has more than", _container(_block(1, _deflated(bytes(70 << 20))), codec="deflate")),
    ("its CRC-32 is that of another content", _container(_block(1, _SNAPPED), codec="snappy")),
    ("not a Snappy block", _container(_block(1, b"\xff" * 20), codec="snappy")),
]


REFUSED: list[tuple[str, bytes]] = [
    ("no avro.schema", _container(b"", None)),
    ("codec is 'zstandard', read are null, deflate, snappy, bzip2, xz", _container(b"", codec="zstandard")),
    ("neither TiCDC's nor Debezium's: ", _container(b"", "{")),
    ("a record is needed, this is a string", _container(b"", '"string"')),
    ("a type 'enum'", _container(b"", SCHEMA.replace('"string"', '{"type":"enum","name":"e","symbols":["a"]}'))),
    ("a record without fields", _container(b"", SCHEMA.replace('{"name":"a","type":"string"}', ""))),
    ("a field that is always null", _container(b"", SCHEMA.replace('"string"', '"null"'))),
    ("the sink write values alone", _container(b"", SCHEMA.replace('"a"', '"value"'))),
]


def test_damage_is_reported_with_its_place(tmp_path: Path) -> None:
    def check(row: tuple[str, bytes]) -> None:
        path = tmp_path / "bad.avro"
        path.write_bytes(row[1])
        with pytest.raises(SetupError) as caught:
            list(read_archive(path))
        assert row[0] in caught.value.detail
        assert caught.value.detail.startswith(f"{path}: at byte ")
        assert "fetch the file again" in caught.value.detail

    check_rows(DAMAGED, check, lambda row: row[0])


def test_another_writers_file_is_refused_and_need_not_be_fetched_again(tmp_path: Path) -> None:
    def check(row: tuple[str, bytes]) -> None:
        path = tmp_path / "other.avro"
        path.write_bytes(row[1])
        with pytest.raises(SetupError) as caught:
            list(read_archive(path))
        assert row[0] in caught.value.detail
        assert "fetch" not in caught.value.detail

    check_rows(REFUSED, check, lambda row: row[0])


def test_what_is_read_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys and headers beside the values (store.kafka.keys), what is hidden or unfinished: no message comes of them."""
    values = ["year=2024/t+0+0000000000.avro", "year=2024/_t+0+0000000000.avro", "_t/db.keys.avro"]
    reported = ["year=2024/t+0+0000000000.keys.avro", "t+0+0.headers.avro", "+tmp/t/1_tmp.avro", "t.avro.gz"]
    for name in (*values, *reported, "_SUCCESS", "_1.avro", ".1.avro", ".t.avro.crc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(_container(_block(1, _TEXT)) if name in values else b"")
    assert len(list(read_source(str(tmp_path), KafkaClient()))) == 3
    said = capsys.readouterr().err
    assert "not read: 4 files that are not finished Avro files of values: " + ", ".join(sorted(reported)[:3]) in said
    with pytest.raises(SetupError, match=r"wrote keys there: the messages are in t\+0\+0000000000\.avro"):
        archive_files(str(tmp_path / reported[0]))
    with pytest.raises(SetupError, match=r"t\.avro\.gz: an Avro file is read as it is.*: inflate it to t\.avro"):
        archive_files(str(tmp_path / "t.avro.gz"))


def test_records_with_arrays_are_found_by_reading_them(tmp_path: Path) -> None:
    path = tmp_path / "arrays.avro"
    path.write_bytes(_container(_block(2, b"\x04\x01\x00\x00" + b"\x00"), _ARRAY))
    assert [(m.value or b"")[18:] for m in read_archive(path)] == [b"\x04\x01\x00\x00", b"\x00"]


def test_random_damage_gives_messages_or_one_error(tmp_path: Path) -> None:
    text, bodies = _values(Golden("avro", "wide.ext1"))
    whole = _container(_block(2, b"".join(bodies[:2])) + _block(1, bodies[2]), text)
    rng, path, ran = random.Random(f"containers {SEED}"), tmp_path / "x.avro", {"error": 0, "messages": 0}
    for _ in range(400):
        data = bytearray(whole)
        at = rng.randrange(len(data)) if rng.random() < 0.5 else rng.randrange(len(text), len(data))
        data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(4))
        path.write_bytes(data)
        try:
            assert len(list(read_archive(path))) <= 3
            ran["messages"] += 1
        except SetupError:
            ran["error"] += 1
    assert min(ran.values()) > 20


_NEWEST: list[tuple[str, list[str], str]] = [
    # files of versions (their columns), and the newest
    (
        "a partition that the new columns did not reach",
        ["partition=0/t+0+0 a", "partition=0/t+0+9 ab", "x/t+1+0 a"],
        "ab",
    ),
    ("folders whose order is not that of time", ["hour=10/t+0+9 ab", "hour=9/t+0+0 a"], "ab"),
    ("partitions that know three versions together", ["t+0+0 ab", "t+0+9 abc", "t+1+0 a", "t+1+9 ab"], "abc"),
    ("a column that was dropped", ["t+0+0 ab", "t+0+9 a", "t+1+0 ab"], "a"),
    ("numbers of the registry", ["t+0+0 ab 2", "t+1+0 a 1"], "ab"),
    ("names that say no partition", ["1/part-0 a", "2/part-0 ab"], "ab"),
]


def test_columns_are_those_of_the_newest_schema(tmp_path: Path) -> None:
    """Else the column that the newest has would be left out of rows without a word."""

    def check(row: tuple[str, list[str], str]) -> None:
        _, files, newest = row
        folder = tmp_path / str(_NEWEST.index(row))
        for name, columns, *version in (file.split(" ") for file in files):
            kind = {"type": "int", "connect.parameters": {"tidb_type": "INT"}}
            fields = [{"name": c, "type": kind} for c in columns]
            schema = {"type": "record", "name": "t", "namespace": "default.d", "fields": fields}
            numbered = {"connect.version": int(version[0])} if version else {}
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            block = _block(1, b"\x02" * len(columns))
            (folder / f"{name}.avro").write_bytes(_container(block, json.dumps(schema | numbered)))
        out = folder / "rows.parquet"
        words = ["decode", "--format", "avro", "--time-zone", "UTC", "--in", str(folder), "--out", str(out)]
        assert run_quietly([*words, "--table", "d.t"])[0] == 0
        rows: list[Any] = pq.read_table(out).column("after").to_pylist()
        assert len(rows) == len(files)
        assert {"".join(after) for after in rows} == {newest}

    check_rows(_NEWEST, check, lambda row: row[0])


# ---- what Kafka Connect makes of schemas
def _as_connect(text: str) -> str:
    """TiCDC's schema as AvroData writes it again: its own attributes, and a type around a field with a default."""
    return _with_defaults(text, lambda default: {"connect.default": default})


def _as_newer_connect(text: str) -> str:
    """Releases that keep a field's default where it was leave a mark in the type instead."""
    return _with_defaults(text, lambda _: {"connect.parameters": {"io.confluent.connect.avro.field.default": "true"}})


def _with_defaults(text: str, attributes: Callable[[Any], dict[str, Any]]) -> str:
    schema = json.loads(text)
    for field in schema["fields"]:
        default, kind = field.get("default"), field["type"]
        if default is not None and not isinstance(kind, list):
            field["type"] = kind = dict(kind) if isinstance(kind, dict) else {"type": kind}
            for name, value in attributes(default).items():
                kind[name] = {**kind.get(name, {}), **value} if isinstance(value, dict) else value
    return json.dumps({**schema, "connect.version": 1, "connect.name": f"{schema['namespace']}.{schema['name']}"})


def _debezium_as_connect(text: str) -> str:
    schema = json.loads(text)

    def strip(node: Any) -> Any:
        if isinstance(node, list):
            return [strip(n) for n in node]
        if not isinstance(node, dict):
            return node
        return {k: strip(v) for k, v in node.items() if k not in ("connect.field", "tidb_type")}

    return json.dumps(strip(schema))


ARCHIVES: list[tuple[Golden, Callable[[str], str]]] = [
    (Golden("avro", "wide.ext1"), _as_connect), (Golden("avro", "wide.ext0.str"), _as_connect),
    (Golden("avro", "wide.ext1"), _as_newer_connect), (Golden("avro", "checksum.checksum"), _as_newer_connect),
    (Golden("avro", "wide.before.ext1"), _as_newer_connect), (Golden("avro", "wide.ext1"), str),
    (Golden("debezium-avro", "wide.str.ext"), str), (Golden("debezium-avro", "wide.str.ext"), _debezium_as_connect),
]  # fmt: skip


def test_an_archived_topic_is_decoded_as_its_messages(tmp_path: Path) -> None:
    """`--format auto` on a folder of a sink's files: the same rows as from Kafka, but for the id of the schema."""

    def check(row: tuple[Golden, Callable[[str], str]]) -> None:
        golden, rewritten = row
        text, bodies = _values(golden)
        folder = tmp_path / str(ARCHIVES.index(row))
        folder.mkdir()
        for offset in (0, 1000):
            data = _container(_block(len(bodies), _deflated(b"".join(bodies))), rewritten(text), "deflate")
            (folder / f"topic+0+{offset:010d}.avro").write_bytes(data)
        ddl = ["--ddl", str(golden.meta_file)] if rewritten is _debezium_as_connect else []
        words = ["decode", "--format", "auto", "--time-zone", golden.zone, *ddl]
        code, out = run_quietly([*words, "--in", str(folder)])
        lines = [json.loads(line) for line in out.splitlines()]
        messages = [m for m in golden.messages() if m.value and m.value[5:] in bodies]
        decoder = golden.side(ddl=bool(ddl)).decoder()
        events: list[Any] = [decoder.decode(Message(None, m.value))[0] for m in messages] * 2
        assert code == 0
        assert [line["after"] for line in lines] == [_plain(e.after) for e in events]
        assert [(line["op"], line["commit_ts"], line["schema_id"]) for line in lines] == [
            (e.op, e.commit_ts, None) for e in events
        ]
        assert {(line["topic"], line["partition"]) for line in lines} == {("topic", 0)}
        assert {line["format"] for line in lines} == {golden.format}

    check_rows(ARCHIVES, check)


@pytest.mark.slow  # two Spark jobs
def test_spark_reads_an_archived_topic_as_this_process_does(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = Golden("avro", "pk_int.ext1")
    text, bodies = _values(golden)
    path = tmp_path / "tidb_test_pk_int+0+0000000000.avro"
    path.write_bytes(_container(_block(len(bodies), _deflated(b"".join(bodies))), _as_newer_connect(text), "deflate"))
    words = ["--format", "avro", "--time-zone", golden.zone, "--ddl", str(golden.meta_file), "--in"]
    here = run_quietly(["decode", *words, str(path)])
    assert here[1].count('"kind": "row"') == len(bodies)
    assert main(["decode", *words, str(path), "--out", str(tmp_path / "rows.jsonl")]) == 0
    assert "deletes are null values, which these files lack\n" in capsys.readouterr().err
    for location in (path, tmp_path):
        assert run_quietly(["decode", *words, str(location), "--spark"]) == here
    lake = f"delta:{tmp_path / 'lake'}"
    assert main(["merge", *words, str(path), "--table", "test.pk_int", "--out", lake]) == 0
    assert "deletes are null values, which these files lack: rows that were deleted stay" in capsys.readouterr().err


def _plain(row: Any) -> Any:
    return row and {k: {"hex": v.hex()} if isinstance(v, bytes) else v for k, v in row.items()}


def test_where_avro_files_do_not_go(tmp_path: Path) -> None:
    path = tmp_path / "t.avro"
    path.write_bytes(_container(_block(1, _TEXT)))

    def check(words: list[str]) -> None:
        error = io.StringIO()
        with contextlib.redirect_stderr(error):
            assert main(words) == 2
        assert "avro" in error.getvalue().lower()

    decode, out = ["decode", "--format", "avro", "--in", str(path)], str(tmp_path / "x.avro")
    check_rows(
        [
            [*decode, "--spark", "--out", out, "--table", "d.t"],
            [*decode, "--out", out],
            [*decode, "--out", out, "--table", "d.t", "--types", "typed"],
            ["transcode", "--from", "avro", "--to", "open", "--in", str(path), "--out", out],
        ],
        check,
    )
