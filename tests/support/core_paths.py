"""The core paths of the Spark API on whatever Spark is imported, by what is public on all of them.

    python -m tests.support.core_paths FOLDER [connect]

Prints "PATH ok" for each path, and where the in-process codec has other rows what differs; exit code 1 then.
connect: in a session of Spark Connect, with a server that pyspark starts on this machine.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.golden import Golden
from tests.support.spark_settings import INTERPRETED, QUICK
from ticdc_bridge import count_changes, datasource, decode, encode, spark_session, transcode
from ticdc_bridge.cli import main as run_command
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import DdlEvent, Message, RowChange
from ticdc_bridge.spark_jobs.io.message_files import message_line
from ticdc_bridge.spark_jobs.lake.tables import has_delta, lake_config
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import transcode_message
from ticdc_bridge.spark_jobs.spark.session import is_connect
from ticdc_bridge.spark_jobs.streaming.stream import refuse_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AVRO, OPEN = Golden("avro", "evolution.ext1"), Golden("open", "wide.default")
_TABLE = "test.evo"


class Paths:
    """Each public method is a path; it raises AssertionError where the rows are others."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._avro = self._frame(AVRO)
        self._events = [e for e in AVRO.events() if isinstance(e, RowChange)]
        self._ours = [e for e in self._events if str(e.table.id) == _TABLE]

    def maps(self) -> None:
        """decode without a table: Avro by the kernels, Open by definitions, and an error with its bytes."""
        for golden, ddl in ((AVRO, None), (OPEN, OPEN.definitions)):
            schemas = None if ddl else golden.schemas
            rows = decode(self._frame(golden), format=golden.format, time_zone=golden.zone, schemas=schemas, ddl=ddl)
            reported = [
                (r["kind"], r["op"], r["commit_ts"], r["before"], r["after"])
                for r in rows.orderBy("source.offset", "row").collect()
            ]
            assert reported == [*_expected(golden, ddl is not None)], golden
        cut = self._avro.selectExpr("key", "substring(value, 1, 9) as value").limit(1)
        (row,) = decode(cut, format="avro", schemas=AVRO.schemas).collect()
        assert (row["kind"], row["error"]["code"], len(row["error"]["value"])) == ("error", "TRUNCATED", 9)

    def typed(self) -> None:
        """decode with a table, by both checks and with dates as dates: the same rows with typed columns."""
        wanted = [(e.op, e.commit_ts, *(v and v.get("id") for v in (e.before, e.after))) for e in self._ours]
        more: list[dict[str, Any]] = [{}, {"check": "header"}, {"types": "typed"}]
        for arguments in more:
            rows = decode(self._avro, format="avro", schemas=AVRO.schemas, table=_TABLE, **arguments)
            assert dict(rows.select("after.*").dtypes)["id"] == "int"
            reported = [
                (r["op"], r["commit_ts"], *(s and str(s["id"]) for s in (r["before"], r["after"])))
                for r in rows.orderBy("source.offset", "row").collect()
            ]
            assert reported == wanted, arguments

    def counted(self) -> None:
        """What was left out of a result is counted."""
        counts = count_changes(decode(self._avro, format="avro", schemas=AVRO.schemas, table=_TABLE))
        others = len(self._events) - len(self._ours)
        assert (counts["messages"], counts["skipped.other table"]) == (len(self._events), others), counts

    def transcoded(self) -> None:
        out = transcode(
            self._avro, from_format="avro", to_format="debezium", schemas=AVRO.schemas, options=_DEBEZIUM
        )  # fmt: skip
        assert [
            (_bytes(r["key"]), _bytes(r["value"])) for r in out.orderBy("key", "value").collect()
        ] == self._debezium()

    def encoded(self) -> None:
        """decode and encode again: the same bytes."""
        changes = decode(self._avro, format="avro", schemas=AVRO.schemas)
        out = encode(changes, format="avro", schemas=AVRO.schemas, options=_EXTENSION)
        error_text = {(_bytes(r["key"]), _bytes(r["value"])) for r in out.where("error is null").collect()}
        assert error_text == {(m.key, m.value) for m in AVRO.messages()}

    def streamed(self) -> None:
        """decode (maps and typed) and transcode of a stream, from files to files."""
        source = str(self._folder / "stream")
        self._avro.coalesce(1).write.parquet(source)
        stream = self._spark.readStream.schema(self._avro.schema).parquet(source)
        entry, typed = (decode(stream, format="avro", schemas=AVRO.schemas, table=table) for table in (None, _TABLE))
        written = transcode(stream, from_format="avro", to_format="debezium", schemas=AVRO.schemas, options=_DEBEZIUM)
        for name, frame in (("maps", entry), ("typed", typed), ("other", written)):
            out = str(self._folder / f"out-{name}")
            writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{out}-at")
            writer.trigger(availableNow=True).start(out).awaitTermination()
            rows = self._spark.read.parquet(out)
            if name == "other":
                assert sorted((_bytes(r["key"]), _bytes(r["value"])) for r in rows.collect()) == self._debezium()
            else:
                changed = rows.where("kind = 'row'").orderBy("source.offset").collect()
                reported = [(r["op"], r["commit_ts"]) for r in changed]
                assert reported == [(e.op, e.commit_ts) for e in (self._ours if name == "typed" else self._events)], (
                    name
                )

    def data_source(self) -> None:
        datasource.register(self._spark)
        options = {"format": "avro", "schemas": str(AVRO.meta_file)}
        rows = self._spark.read.format("ticdc").options(**options).load(self._lines("source.jsonl"))
        assert [(r["op"], r["commit_ts"]) for r in rows.where("kind = 'row'").orderBy("source.offset").collect()] == [
            (e.op, e.commit_ts) for e in self._events
        ]
        typed = self._spark.read.format("ticdc").options(**options, table=_TABLE).load(self._lines("source.jsonl"))
        assert typed.where("after.id = 1").count() > 0

    def commands(self) -> None:
        """decode --spark as in this process; merge, twice; --stream, which Spark Connect is refused."""
        position, out = self._lines("lines.jsonl"), self._folder / "rows"
        common = ["--format", "avro", "--schemas", str(AVRO.meta_file), "--in", position]
        for more in ([], ["--spark"]):
            assert run_command(["decode", *common, "--out", f"{out}{len(more)}", *more]) == 0
        assert Path(f"{out}0").read_text() == Path(f"{out}1").read_text()
        for _ in range(2):
            delta = str(self._folder / "delta")
            assert run_command(["merge", *common, "--table", _TABLE, "--out", f"delta:{delta}"]) == 0
            assert self._merged(delta) == self._newest()
        if is_connect(self._spark):
            with pytest.raises(SetupError, match="--stream needs a Spark session in this process"):
                refuse_connect(self._spark)

    # ---- what is read, and what the codec makes of it
    def _frame(self, golden: Golden) -> DataFrame:
        rows = [(m.key, m.value, m.topic, m.offset) for m in _numbered(golden)]
        kinds = "key binary, value binary, topic string, offset bigint"
        return self._spark.createDataFrame(rows, kinds)

    def _lines(self, name: str) -> str:
        path = self._folder / name
        path.write_text("".join(json.dumps(message_line(m)) + "\n" for m in _numbered(AVRO)))
        return str(path)

    def _debezium(self) -> list[tuple[bytes | None, bytes | None]]:
        read = AVRO.side()
        write = CodecConfig("debezium", AVRO.schemas, read.options.of(_DEBEZIUM))
        decoder, encoder = read.decoder(), write.encoder()
        out = [m for entry in _numbered(AVRO) for m in transcode_message(decoder, encoder, entry).out]
        return sorted((m.key, m.value) for m in out)

    def _merged(self, path: str) -> set[str]:
        from deltalake import DeltaTable

        if has_delta(self._spark):
            return {str(row["id"]) for row in self._spark.read.format("delta").load(path).collect()}
        return {str(row["id"]) for row in DeltaTable(path).to_pyarrow_table().to_pylist()}

    def _newest(self) -> set[str]:
        rows: dict[str, bool] = {}
        for event in self._ours:
            row = event.after or event.before
            if row is not None:
                rows[str(row["id"])] = event.op != "d"
        return {key for key, existing in rows.items() if existing}


_DEBEZIUM, _EXTENSION = {"time_zone": "UTC"}, {"enable_tidb_extension": True}


def _numbered(golden: Golden) -> list[Message]:
    return [replace(m, partition=0, offset=n, timestamp=None) for n, m in enumerate(golden.messages())]


def _expected(golden: Golden, ddl: bool) -> Iterator[tuple[Any, ...]]:
    for event in golden.events(ddl=ddl):
        if isinstance(event, RowChange):
            yield "row", event.op, event.commit_ts, _texts(event.before), _texts(event.after)
        else:
            yield "ddl" if isinstance(event, DdlEvent) else "watermark", None, event.commit_ts, None, None


def _texts(row: Any) -> dict[str, str | None] | None:
    if row is None:
        return None
    return {k: f'{{"hex":"{v.hex()}"}}' if isinstance(v, bytes) else v for k, v in row.items()}


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)  # Spark 4.0 gives a bytearray


def _delta() -> dict[str, str]:
    """The settings of a session with Delta, where its jars are published for this Spark; else deltalake writes."""
    try:
        return lake_config()
    except SetupError:
        return {}


def main(folder: Path, connect: bool) -> int:
    if connect:
        from pyspark.sql import SparkSession

        builder: Any = SparkSession.builder
        spark = builder.remote("local[2]").config(map={"spark.sql.shuffle.partitions": "2"}).getOrCreate()
    else:
        spark = spark_session("core paths", master="local[2]", config={**QUICK, **INTERPRETED, **_delta()})
    print(f"Spark {spark.version}, {type(spark).__module__}", flush=True)
    paths, failed = Paths(spark, folder), False
    checks: dict[str, Callable[[], None]] = {n: getattr(paths, n) for n in vars(Paths) if not n.startswith("_")}
    for name, check in checks.items():
        begin = time.monotonic()
        try:
            check()
            print(f"{name} ok", flush=True)
        except (Exception, SystemExit) as error:
            failed = True
            print(f"{name}: {type(error).__name__}: {str(error)[:2000]}", flush=True)
        print(f"{name}: {time.monotonic() - begin:.1f} s", file=sys.stderr)
    spark.stop()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), "connect" in sys.argv[2:]))
