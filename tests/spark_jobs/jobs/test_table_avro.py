"""`decode --table DB.TABLE --out FILE.avro`: fastavro reads what the rows say, and so does `--in FILE.avro`."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest

from tests.schemas.codec.test_avro import same_value
from tests.support.each import each
from tests.support.golden import READ, Golden, cases, sampled
from tests.support.record_outputs import run_quietly
from tests.support.rows import ORIGIN, change
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import RowChange, tso_physical_ms
from ticdc_bridge.schemas.model.names import sanitise_name
from ticdc_bridge.schemas.model.table import Column, Table, TableId, Value
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.io.avro_files import ArchiveWriter, archived_schemas, read_archive
from ticdc_bridge.spark_jobs.jobs.table_avro import RecordConfig, record_config
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import transcode_message
from ticdc_bridge.spark_jobs.pipeline.newest_columns import with_newest
from ticdc_bridge.spark_jobs.pipeline.table_view import TableView


def _sides(golden: Golden) -> tuple[CodecConfig, RecordConfig] | None:
    """The side read and the one written, of the table with most rows."""
    events = [e for e in golden.events(ddl=True) if isinstance(e, RowChange)]
    if not events:
        return None
    id_ = Counter(e.table.id for e in events).most_common(1)[0][0]
    read = replace(golden.side(ddl=True), view=TableView(Table(id_, ()), on_lossy="flag"))
    read = with_newest(read)
    return read, record_config(read, "flag")


def _read(path: Path) -> list[dict[str, Any]]:
    """By fastavro; the schema is given without the defaults that goavro lets pass."""
    schema = json.loads(archived_schemas([path])[0].schema)
    for record in (schema, *(f["type"][1] for f in schema["fields"] if f["name"] == "_ticdc_before")):
        for field in record["fields"]:
            field.pop("default", None)
    with path.open("rb") as file:
        return list(fastavro.reader(file, schema))  # type: ignore[arg-type]


def _in_zone(event: RowChange, column: Column | None, value: Value, zone: str) -> Value:
    if column is not None and column.type.kind is Kind.TIMESTAMP and isinstance(value, str):
        return values.shift_zone(value, event.zone, zone)[0]
    return value


@each("golden", **sampled(golden for format_ in READ for golden in cases(format_)))
def test_rows_are_what_fastavro_reads(golden: Golden, tmp_path: Path) -> None:
    try:
        images = _sides(golden)
    except SetupError:  # two columns of one name in Avro; Craft without definitions
        assert golden.name.startswith(("names_collision", "checksum"))
        return
    if images is None:
        return
    read, write = images
    assert write.view is not None
    decoder, encoder, path = read.decoder(), write.encoder(), tmp_path / "rows.avro"
    writer, events = ArchiveWriter(path, write.text), list[RowChange]()
    for message in golden.messages():
        result = transcode_message(decoder, encoder, message)
        events += [
            e for e in result.events if result.out and isinstance(e, RowChange) and e.table.id == write.view.table.id
        ]
        for record in result.out:
            writer.write(record)
    writer.close()
    header = archived_schemas([path])[0]
    schemas = FileSchemas([RegisteredSchema(header.subject, 1, header.id, header.schema)])
    back = CodecConfig("avro", schemas, read.options).decoder()
    again = [back.decode(message)[0] for message in read_archive(path)]
    columns = {sanitise_name(c.name): c for c in write.view.table.columns}
    for event, theirs, ours in zip(events, _read(path), again, strict=True):
        assert isinstance(ours, RowChange)
        rows = [
            (event.before if event.op == "d" else event.after, theirs, ours.before if event.op == "d" else ours.after)
        ]
        if theirs.get("_ticdc_before"):
            rows.append((event.before, theirs["_ticdc_before"], ours.before))
        for row, record_, row_again in rows:
            assert row is not None
            assert row_again is not None
            for name, value in row.items():
                short = sanitise_name(name)
                value_ = _in_zone(event, columns.get(short), value, read.options.time_zone)
                if f"float_damaged:{name}" in event.flags:
                    continue
                if f"lossy_decimal:{name}" in event.flags:
                    value_ = row_again[short]  # a double's text, which has not all digits of the scale
                if short in columns:
                    assert same_value(columns[short], value_, record_[short]), (name, value_, record_[short])
                    assert same_value(columns[short], value_, row_again[short]), (name, value_, row_again[short])
        if "_tidb_commit_ts" in theirs:
            assert (theirs["_tidb_op"], theirs["_tidb_commit_ts"]) == (event.op.replace("r", "c"), ours.commit_ts)
            assert theirs["_tidb_commit_physical_time"] == tso_physical_ms(ours.commit_ts or 0)
            assert event.commit_ts in (None, ours.commit_ts)


def test_the_registrys_schema_and_what_it_can_not_say(tmp_path: Path) -> None:
    golden, path = Golden("avro", "wide.ext0.str"), tmp_path / "rows.avro"
    words = ["decode", "--format", "avro", "--schemas", str(golden.meta_file), "--in", str(golden.messages_file)]
    assert run_quietly([*words, "--table", "test.wide", "--out", str(path)])[0] == 1
    with path.open("rb") as file:
        header: Any = fastavro.schemaless_reader(file, _HEADER, None)
    assert header["meta"]["avro.schema"].decode() == golden.schemas.newest("tidb_test_wide-value")
    dead = [json.loads(line) for line in (tmp_path / "rows.avro.dead.jsonl").read_text().splitlines()]
    assert {(line["code"], line["value_b64"]) for line in dead} == {("LOSSY_VALUE", None)}  # deletes
    assert len(dead) + len(list(read_archive(path))) == len(golden.messages())


_HEADER: Any = fastavro.parse_schema(
    {
        "type": "record",
        "name": "h",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "m", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        ],
    }
)


def test_a_schema_that_is_made_tells_every_change(tmp_path: Path) -> None:
    """From Open Protocol: inserts, updates with their old rows and deletes come back as they were."""
    golden, path = Golden("open", "wide.default"), tmp_path / "rows.avro"
    words = ["--ddl", str(golden.meta_file), "--time-zone", golden.zone, "--in"]
    decode = ["decode", "--format", "open", *words, str(golden.messages_file)]
    assert run_quietly([*decode, "--table", "test.wide", "--out", str(path)])[0] == 0
    before, after = (
        [
            (line["op"], line["commit_ts"], line["before"], line["after"])
            for line in map(json.loads, run_quietly(command)[1].splitlines())
            if line["kind"] == "row"
        ]
        for command in (decode, ["decode", "--format", "auto", *words, str(path)])
    )
    assert after == before
    assert {op for op, *_ in after} == {"c", "u", "d"}


def test_a_value_that_the_registered_schema_has_no_place_for_is_an_error() -> None:
    """`vv` came with the last DDL, after which no schema was registered."""
    read = replace(Golden("avro", "evolution.ext1").side(ddl=True), view=TableView(Table(TableId("test", "evo"), ())))
    write = record_config(with_newest(read), "error")
    assert write.view is not None
    row = change(write.view.table, {"vv": "1"})
    with pytest.raises(WireError) as caught:
        write.encoder().encode(row, ORIGIN)
    assert caught.value.fields["column"] == "vv"
