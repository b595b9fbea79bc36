"""A batch of changes into a large table: `merge` of Open Protocol, beside a MERGE INTO of the same rows by hand.

The rival has the rows decoded, typed, one a key and cached before its time counts, and knows nothing of deleted keys or
of what comes late. Both tables are Delta's or Iceberg's, made without options, with the same rows in as many
files; batch after batch goes into both, in turn. Eight of ten changes update a row anywhere in the table, one inserts,
one deletes. Batches that a young JVM compiles in are left out. `lake-merge-full`: our table is made with
--reader-features full, the rival's has Delta's defaults; batches of three sizes into 5 million rows, and by Avro, whose
deletes have no commit_ts, beside Open Protocol.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.cpu import Spent, Stopwatch
from benchmarks.figures import Figure, Run
from benchmarks.rows import OPTIONS
from ticdc_bridge.spark_jobs.io.message_files import message_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS, _QUICK_ROWS = 10_000_000, 1_000_000
_CHANGES, _FEW = 10_000, 1_000
_TARGET, _FULL_TARGET, _AVRO_TARGET = 1 / 1.2, 6.0, 1 / 1.5
_FULL_ROWS = 5_000_000
_SIZES = {_CHANGES: (10, 5), _FEW: (1, 5)}
"""Changes of a batch, and how many batches are left out, for a young JVM compiles in them, and measured."""
_QUICK_SIZES = {_CHANGES: (1, 2), _FEW: (1, 2)}
_FULL_SIZES = {_CHANGES: (10, 5), 100_000: (2, 3), 1_000_000: (1, 2)}
_FIRST_TS = 463_299_738_777_157_634
_CREATE = "CREATE TABLE items (id BIGINT PRIMARY KEY, a INT, b DECIMAL(12,2), name VARCHAR(40), at DATETIME)"
_MERGE = """
MERGE INTO {table} t USING changes s ON t.id = s.id
WHEN MATCHED AND s.op = 'd' THEN DELETE
WHEN MATCHED THEN UPDATE SET t.a = s.a, t.b = s.b, t.name = s.name, t.at = s.at, t._commit_ts = s._commit_ts
WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT (id, a, b, name, at, _commit_ts)
    VALUES (s.id, s.a, s.b, s.name, s.at, s._commit_ts)
"""
_Row = tuple[str, int, int, str, str, str, int]
"""op, id, a, b, name, at, commit_ts."""


def run(run: Run) -> Iterator[Figure]:
    """CPU seconds of a batch. RuntimeError where the two tables differ."""
    return _measure(run, "delta")


def run_full(run: Run) -> Iterator[Figure]:
    """As `run`, our table with deletion vectors."""
    return _measure(run, "delta-full")


def run_iceberg(run: Run) -> Iterator[Figure]:
    """As `run`, both tables Iceberg's."""
    return _measure(run, "iceberg")


def _measure(run: Run, kind: str) -> Iterator[Figure]:
    from ticdc_bridge.spark_jobs.lake.engines.delta_features import FULL
    from ticdc_bridge.spark_jobs.lake.tables import lake_config
    from ticdc_bridge.spark_jobs.spark.session import spark_session

    is_full = kind == "delta-full"
    rows = run.rows or (_QUICK_ROWS if run.quick else _FULL_ROWS if is_full else _ROWS)
    sizes = _QUICK_SIZES if run.quick else _FULL_SIZES if is_full else _SIZES
    with tempfile.TemporaryDirectory() as folder:
        catalog = {
            "": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": f"{folder}/lake",
        }  # fmt: skip
        config = {"spark.driver.memory": "2g", **lake_config(("delta", "iceberg"))}
        config |= {f"spark.sql.catalog.lake{name}": value for name, value in catalog.items()}
        spark = spark_session("benchmarks", master="local[2]", config=config)
        pair = _Pair(spark, Path(folder), rows, "iceberg" if kind == "iceberg" else "delta")
        run.say(f"two tables of {rows:,} rows")
        pair.fill(FULL if is_full else {})
        name = "lake-merge" if kind == "delta" else f"lake-merge-{kind.removeprefix('delta-')}"
        medians = dict[int, float]()
        for count, (warm, rounds) in sizes.items():  # of a run that is cut off, the one with a target is there
            ours, theirs = list[float](), list[float]()
            for number in range(warm + rounds):
                run.say(f"batch {number} of {count:,} changes")
                spent = pair.turn(count)
                if number >= warm:
                    ours.append(spent[0].cpu)
                    theirs.append(spent[1].cpu)
            target = (_FULL_TARGET if is_full else _TARGET) if count == _CHANGES else None
            yield Figure(f"{name}.{count}-into-{rows}", median(ours), "s CPU a batch", "less", median(theirs), target)
            medians[count] = median(ours)
        if is_full:  # last, as the deleted keys keep places of deletes from then on
            (warm, rounds), cpu = sizes[_CHANGES], medians[_CHANGES]
            by_avro = [pair.turn(_CHANGES, "avro")[0].cpu for _ in range(warm + rounds)][warm:]
            yield Figure(f"{name}.avro-{_CHANGES}", median(by_avro), "s CPU a batch", "less", cpu, _AVRO_TARGET)
        commits = pair.commits()
        pair.check()
    yield Figure(f"{name}.commits", commits, "commits a batch", "less", note="of the table and its deleted keys")


class _Pair:
    """Two tables of the same rows, and what changes both."""

    def __init__(self, spark: SparkSession, root: Path, rows: int, table_format: str = "delta") -> None:
        self._spark, self._root, self._rows, self._format = spark, root, rows, table_format
        self._random, self._ts, self._next = random.Random("lake-merge"), _FIRST_TS, rows
        self._batches = self._made = 0
        self._ddl = root / "ddl.jsonl"
        self._ddl.write_text(json.dumps({"commit_ts": 1, "db": "shop", "query": _CREATE}) + "\n")
        self._offset, self._schemas = 0, root / "schemas.jsonl"

    def fill(self, settings: Mapping[str, str]) -> None:
        """Our table is made by a merge of one row, under these settings; both get the same rows."""
        for name, value in settings.items():
            self._spark.conf.set(name, value)
        self._merge([("c", -1, 1, "1.00", "first", "2026-01-01 00:00:00", self._ts)])
        for name in settings:
            self._spark.conf.unset(name)
        ours, theirs = self._name("ours"), self._name("theirs")
        self._spark.sql(f"CREATE TABLE {theirs} USING {self._format} AS SELECT * FROM {ours}")
        columns = (
            "id", "cast(id % 1000 as int) a", "cast(id % 100000 / 100 as decimal(12,2)) b", "concat('name ', id) name",
            "'2026-01-01 00:00:00' at", f"{self._ts}L _commit_ts",
        )  # fmt: skip
        self._spark.range(0, self._rows, 1, 8).selectExpr(*columns).createOrReplaceTempView("rows")
        for table in (ours, theirs):
            self._spark.sql(f"INSERT INTO {table} SELECT * FROM rows")
        self._made = self._count_commits()

    def turn(self, count: int, format_: str = "open") -> tuple[Spent, Spent]:
        """One batch into both."""
        changes = self._changes(count)
        messages = self._write(changes, format_)
        columns = "op string, id long, a int, b string, name string, at string, _commit_ts long"
        frame = self._spark.createDataFrame(changes, columns)
        frame = frame.selectExpr("op", "id", "a", "cast(b as decimal(12,2)) b", "name", "at", "_commit_ts").persist()
        frame.count()
        with Stopwatch() as ours:
            self._merge_file(messages, format_)
        with Stopwatch() as theirs:
            frame.createOrReplaceTempView("changes")
            self._spark.sql(_MERGE.format(table=self._name("theirs")))
        frame.unpersist()
        self._batches += 1
        return ours.spent, theirs.spent

    def commits(self) -> float:
        """Of the table and its deleted keys, a batch; those that made the tables left out."""
        return (self._count_commits() - self._made) / self._batches

    def _count_commits(self) -> int:
        # Of Iceberg's tables each commit writes a file of metadata.
        pattern = "**/ours*/metadata/*.metadata.json" if self._format == "iceberg" else "ours*/_delta_log/*.json"
        return len(list(self._root.glob(pattern)))

    def _name(self, table: str) -> str:
        return f"lake.shop.{table}" if self._format == "iceberg" else f"delta.`{self._root / table}`"

    def check(self) -> None:
        ours, theirs = (self._spark.table(self._name(entry)) for entry in ("ours", "theirs"))
        columns = theirs.columns
        if ours.select(columns).exceptAll(theirs).limit(1).count() or ours.count() != theirs.count():
            raise RuntimeError("the two tables differ")

    def _changes(self, count: int) -> list[_Row]:
        made = list[_Row]()
        for n, id_ in enumerate(self._random.sample(range(self._rows), count)):
            self._ts += 1 << 18
            op = "d" if n % 10 == 0 else "c" if n % 10 == 1 else "u"
            if op == "c":
                id_, self._next = self._next, self._next + 1
            made.append((op, id_, n, f"{n}.50", f"new {n}", "2026-02-02 00:00:00", self._ts))
        return made

    def _publish(self) -> None:
        """The table's schemas, as a changefeed registers them."""
        from ticdc_bridge.schemas.formats.avro import schema
        from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
        from ticdc_bridge.schemas.model.table import TableId

        version = TableDefinitions.read(self._ddl).at(TableId("shop", "items"), None)
        assert version is not None
        made = [of(version.table, OPTIONS) for of in (schema.key_schema, schema.value_schema)]
        entries = zip(("shop-key", "shop-value"), (1, 2), made, strict=True)
        lines = [{"subject": subject, "version": 1, "id": id_, "schema": text} for subject, id_, text in entries]
        self._schemas.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def _write(self, changes: Sequence[_Row], format_: str = "open") -> Path:
        from ticdc_bridge import Encoder

        if not self._schemas.exists():
            self._publish()
        options = {"enable_tidb_extension": True} if format_ == "avro" else {}
        encoder = Encoder(format_, ddl=self._ddl, registry=str(self._schemas), options=options)
        path = self._root / "messages.jsonl"
        with path.open("w") as out:
            for op, id_, a, b, name, at, commit_ts in changes:
                self._offset += 1
                row = {"id": str(id_), "a": str(a), "b": b, "name": name, "at": at}
                event = {
                    "kind": "row", "format": "open", "db": "shop", "table": "items", "op": op, "commit_ts": commit_ts,
                    "schema_id": None, "table_version": None, "key": ["id"], "before": row if op in "ud" else None,
                    "after": None if op == "d" else row, "flags": [], "topic": "shop", "partition": 0,
                    "offset": self._offset,
                }  # fmt: skip
                for message in encoder.encode(event, timestamp=(commit_ts >> 18) + 20):
                    out.write(json.dumps(message_line(message)) + "\n")
        return path

    def _merge(self, changes: Sequence[_Row]) -> None:
        self._merge_file(self._write(changes))

    def _merge_file(self, path: Path, format_: str = "open") -> None:
        from ticdc_bridge import merge
        from ticdc_bridge.spark_jobs.spark.frames import read_files

        into = "iceberg:lake.shop.ours" if self._format == "iceberg" else f"delta:{self._root / 'ours'}"
        engine = "iceberg-spark" if self._format == "iceberg" else "delta-spark"
        messages = read_files(self._spark, str(path))
        schemas = str(self._schemas) if format_ == "avro" else None
        merge(messages, into=into, table="shop.items", format=format_, ddl=self._ddl, schemas=schemas, engine=engine)
