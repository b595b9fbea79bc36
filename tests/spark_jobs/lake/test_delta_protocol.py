"""Tables of other writers, and what other readers make of ours: what the merge without Spark's MERGE leaves to Spark,
and bounds, vectors and checkpoints as Delta's protocol has them.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow
import pyarrow.parquet
import pytest
from pyroaring import BitMap64

from tests.support.golden import Registry
from tests.support.lake_readers import delta_by_duckdb, query_duckdb
from tests.support.table import check_rows
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge import Encoder
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.lake import direct_merge
from ticdc_bridge.spark_jobs.lake.delta_protocol.data_file import arrow_type, write_rows
from ticdc_bridge.spark_jobs.lake.delta_protocol.deletion_vector import read_vector, write_vectors
from ticdc_bridge.spark_jobs.lake.delta_protocol.key_search import find_rows
from ticdc_bridge.spark_jobs.lake.delta_protocol.transaction_log import (
    Field,
    Snapshot,
    TransactionLog,
    UnsupportedTable,
    log_of,
)
from ticdc_bridge.spark_jobs.lake.direct_merge import NO_VECTORS
from ticdc_bridge.spark_jobs.lake.engines.delta_features import FULL
from ticdc_bridge.spark_jobs.lake.engines.delta_spark import SparkDelta
from ticdc_bridge.spark_jobs.spark.sql_expressions import sql_literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

pa: Any = pyarrow
_TS = 463_299_738_777_157_634
_COLUMN = {"name": "id", "type": "long", "nullable": True, "metadata": {}}


# ---- what Spark has to do
def _snapshot(
    configuration: dict[str, str] | None = None, features: tuple[str, ...] = (), reader: int = 3, writer: int = 7,
    schema: str = json.dumps({"type": "struct", "fields": [_COLUMN]}), partitions: tuple[str, ...] = (),
) -> Snapshot:  # fmt: skip
    names = ["deletionVectors", *features]
    protocol = {
        "minReaderVersion": reader, "minWriterVersion": writer, "readerFeatures": names, "writerFeatures": names,
    }  # fmt: skip
    metadata = {"schemaString": schema, "configuration": configuration or {}, "partitionColumns": [*partitions]}
    return Snapshot(1, protocol, metadata, {})


def _schema(**more: Any) -> str:
    return json.dumps({"type": "struct", "fields": [_COLUMN | more]}, separators=(" , ", " : "))


_REFUSED: dict[str, tuple[Snapshot, str]] = {
    "a newer reader": (_snapshot(reader=4), "minReaderVersion 4"),
    "a newer writer": (_snapshot(writer=8), "minWriterVersion 8"),
    **{
        name: (_snapshot(features=(name,)), f"Delta's {name}")
        for name in ("rowTracking", "inCommitTimestamp", "v2Checkpoint", "catalogManaged", "icebergCompatV2", "xyz")
    },
    "appendOnly": (_snapshot({"delta.appendOnly": "TRUE"}), "delta.appendOnly TRUE"),
    "changes": (_snapshot({"delta.enableChangeDataFeed": "true"}), "delta.enableChangeDataFeed true"),
    "constraint": (_snapshot({"delta.constraints.a": "id > 0"}), "delta.constraints.a id > 0"),
    "constraint with a line break": (_snapshot({"delta.constraints.a": "n <> '\n'"}), "delta.constraints.a n <> "),
    "ids": (_snapshot({"delta.columnMapping.mode": "id"}), "delta.columnMapping.mode id"),
    "uniform": (_snapshot({"delta.universalFormat.enabledFormats": "hudi"}), "delta.universalFormat.enabledFormats"),
    "NOT NULL": (_snapshot(schema=_schema(nullable=False)), 'a column with "nullable":false'),
    "generated": (
        _snapshot(schema=_schema(metadata={"delta.generationExpression": "1"})),
        "a column with delta.generationExpression",
    ),
    "identity": (_snapshot(schema=_schema(metadata={"delta.identity.start": 1})), "a column with delta.identity"),
    "partitions": (_snapshot(partitions=("id",)), "partitions"),
}


def test_tables_of_which_a_writer_has_to_do_more() -> None:
    def check(name: str) -> None:
        snapshot, why = _REFUSED[name]
        with pytest.raises(UnsupportedTable) as error:
            snapshot.refuse_others()
        assert f"it has {why}" in str(error.value)

    check_rows(_REFUSED, check)
    mapped = {"delta.columnMapping.mode": "name", "delta.appendOnly": "false"}
    _snapshot(mapped, ("columnMapping", "clustering", "domainMetadata", "typeWidening")).refuse_others()


class _Refusing:
    """A session in which Delta refuses all."""

    def __init__(self, text: str) -> None:
        self._text = text

    def sql(self, _: str) -> None:
        raise RuntimeError(self._text)


def test_what_delta_refuses_stops_its_table_alone() -> None:
    """A column that goes in TiDB may be one by which the lake table is clustered; a conflict is no such error."""
    for name, is_stopped in (
        ("UNSUPPORTED_DROP_CLUSTERING_COLUMN", True), ("UNSUPPORTED_DROP_PARTITION_COLUMN", True),
        ("VIOLATE_CONSTRAINT_WITH_VALUES", True), ("NOT_NULL_CONSTRAINT_VIOLATED", True),
        ("CANNOT_MODIFY_APPEND_ONLY", True), ("CONSTRAINT_DEPENDENT_COLUMN_CHANGE", True),
        ("CONCURRENT_APPEND", False), ("FILE_NOT_FOUND", False),
    ):  # fmt: skip
        session: Any = _Refusing(f"[DELTA_{name}] it has the value 17")
        with pytest.raises(SetupError if is_stopped else RuntimeError) as error:
            SparkDelta(session, "t").delete("true")
        if isinstance(error.value, SetupError):
            assert (error.value.code, "17" in str(error.value)) == ("STOPPED", False)
            assert f"stopped at delta:t: Delta refuses it (DELTA_{name})" in error.value.detail


def _commit_lines(version: int) -> str:
    first = _snapshot({"delta.enableDeletionVectors": "true"})
    add = {"path": f"{version}.parquet", "size": 1, "stats": json.dumps({"numRecords": 1})}
    actions = [{"protocol": first.protocol}, {"metaData": first.metadata}] if version == 0 else []
    return "".join(json.dumps(action) + "\n" for action in [*actions, {"add": add}])


def _write_log(commits: range) -> Path:
    folder = Path("log", "_delta_log")
    folder.mkdir(parents=True)
    for version in commits:
        (folder / f"{version:020}.json").write_text(_commit_lines(version))
    return folder


def test_logs_whose_beginning_is_gone() -> None:
    """A checkpoint in several files is not read, also where its name is that of one in one file."""
    folder = _write_log(range(4))
    actions = [json.loads(line) for version in range(3) for line in _commit_lines(version).splitlines()]
    for part in (1, 2):
        name = f"{2:020}.checkpoint.{part:010}.{2:010}.parquet"
        pyarrow.parquet.write_table(pa.Table.from_pylist(actions[part::2]), folder / name)
    log = TransactionLog(Path("log"))
    assert {*log.snapshot().files} == {f"{n}.parquet" for n in range(4)}
    for version in range(2):
        (folder / f"{version:020}.json").unlink()
    assert len(log.snapshot().files) == 4  # what was read stays
    with pytest.raises(UnsupportedTable, match=r"no checkpoint in one file"):
        TransactionLog(Path("log")).snapshot()
    _write_checkpoint(folder, 2, [*actions, {"sidecar": {"path": "s.parquet"}}])
    with pytest.raises(UnsupportedTable, match=r"in several files"):
        TransactionLog(Path("log")).snapshot()
    _write_checkpoint(folder, 2, actions)
    assert {*TransactionLog(Path("log")).snapshot().files} == {f"{n}.parquet" for n in range(4)}


def _write_checkpoint(folder: Path, version: int, actions: list[dict[str, Any]]) -> None:
    names = {name for action in actions for name in action}
    rows = [{name: action.get(name) for name in names} for action in actions]
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), folder / f"{version:020}.checkpoint.parquet")


def test_a_commit_that_goes_while_newer_ones_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """To commit after it would be a hole in the log of the table, which is at a later version."""
    folder = _write_log(range(3))
    log, real = TransactionLog(Path("log")), TransactionLog._read_commit
    log.snapshot()

    def read(of: TransactionLog, version: int) -> Any:
        if version == 3:
            (folder / f"{2:020}.json").unlink()
        return real(of, version)

    monkeypatch.setattr(TransactionLog, "_read_commit", read)
    with pytest.raises(UnsupportedTable, match=r"newest commit is not there"):
        log.snapshot()


def test_a_commit_that_is_half_written_is_left_to_spark() -> None:
    folder = _write_log(range(3))
    (folder / f"{2:020}.json").write_text(_commit_lines(2)[:20])
    with pytest.raises(direct_merge.REFUSALS):
        TransactionLog(Path("log")).snapshot()


@pytest.mark.parametrize("error", [PermissionError("no links here"), FileExistsError("somebody else's")])
def test_files_of_a_commit_that_is_not_made_go(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    folder, file = _write_log(range(1)), Path("log", "data.parquet")
    file.write_text("rows")

    def link(*_: Any) -> None:
        raise error

    monkeypatch.setattr(os, "link", link)
    log = TransactionLog(Path("log"))
    if isinstance(error, FileExistsError):
        assert not log.commit(1, [{"commitInfo": {}}], [file])
    else:
        with pytest.raises(PermissionError):
            log.commit(1, [{"commitInfo": {}}], [file])
    assert [path.name for path in folder.iterdir()] == [f"{0:020}.json"]
    assert not file.exists()


# ---- bounds and vectors
def _field(name: str, kind: str) -> Field:
    return Field(name, kind, "", name, None)


def test_bounds_of_new_files() -> None:
    """Each is at or beyond the values, for any reader of JSON, or left out."""
    long, most = "x" * 40, chr(0x10FFFF)
    rows: dict[str, tuple[str, list[Any], Any]] = {
        "integer": ("long", [-(1 << 63), None, (1 << 63) - 1], (-(1 << 63), (1 << 63) - 1)),
        "text": ("string", ["é", "a"], ("a", "é")),
        "long": ("string", [long, "y"], ("x" * 32, "y")),
        "longer": ("string", [long, "a"], ("a", "x" * 32 + most)),
        "last": ("string", ["x" * 32 + most + "a"], None),
        "unsigned": ("decimal(20,0)", [Decimal(1 << 63), Decimal((1 << 64) - 1)], (1 << 63, (1 << 64) - 1)),
        "money": ("decimal(12,2)", [Decimal("0.10"), Decimal("-12.50")], (-12.5, 0.1)),
        "digits": ("decimal(38,10)", [Decimal("12345678901234567.0000000001")], None),
        "small": ("decimal(38,10)", [Decimal("0.0000000001")], None),
        "day": ("date", [date(1, 1, 1), date(9999, 12, 31)], ("0001-01-01", "9999-12-31")),
        "time": ("timestamp_ntz", [datetime(1, 1, 1, 0, 0, 0, 1)],
                 ("0001-01-01T00:00:00.000", "0001-01-01T00:00:00.001")),
        "moment": ("timestamp", [datetime(2026, 1, 1, tzinfo=UTC)],
                   ("2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z")),
        "end": ("timestamp_ntz", [datetime(9999, 12, 31, 23, 59, 59, 999_999)], None),
        "number": ("double", [float("nan"), 1.0], None),
        "bytes": ("binary", [b"\xff"], None),
        "nothing": ("long", [None, None], None),
    }  # fmt: skip

    def check(name: str) -> None:
        kind, values, bounds = rows[name]
        field = _field(name, kind)
        add = write_rows(Path(), pa.table({name: pa.array(values, arrow_type(field))}), [field])
        stats = json.loads(add["stats"])
        ends = stats["minValues"], stats["maxValues"]
        assert ends == (({}, {}) if bounds is None else ({name: bounds[0]}, {name: bounds[1]}))
        assert (stats["numRecords"], stats["nullCount"]) == (len(values), {name: values.count(None)})

    check_rows(rows, check)


def test_bounds_of_other_writers_stay_as_they_are() -> None:
    """A file that gets a vector has more digits in its bounds than a float."""
    bounds = r'"minValues":{"d":-12345678901234567890.0987654321,"s":"\"tightBounds\":true,"}'
    for stats in (
        f'{{"numRecords":2,{bounds},"tightBounds":true}}', f'{{"tightBounds" : false, "numRecords":2,{bounds}}}',
        f'{{"numRecords":2,{bounds}}}', f' {{"numRecords" : 2 , "tightBounds": true , {bounds}}}',
    ):  # fmt: skip
        made = direct_merge._with_vector(log_of(""), {"stats": stats}, {})["stats"]
        assert bounds in made
        assert json.loads(made) == json.loads(stats) | {"tightBounds": False}


def test_files_without_statistics_or_columns() -> None:
    """Of another writer: no bounds, and a row without a time, which nothing is newer than."""
    pyarrow.parquet.write_table(pa.table({"id": pa.array([1, None, 3], pa.int32())}), "a.parquet")
    key, time, wanted = [_field("id", "long")], _field("_commit_ts", "long"), [pa.array([3, 4])]
    for stats in (None, "", "{}", '{"numRecords":3,"maxValues":{"_commit_ts":1.5},"nullCount":{"_commit_ts":0}}'):
        add = {"path": "a.parquet", "stats": stats}
        (found,) = find_rows(Path(), [add], key, time, wanted, 10, newer_only=True)
        assert (found.positions.tolist(), found.numbers.tolist(), found.times.tolist()) == ([2], [0], [(1 << 63) - 1])
    pyarrow.parquet.write_table(pa.table({"other": [1]}), "b.parquet")
    assert not [*find_rows(Path(), [{"path": "b.parquet"}], key, time, wanted, 10, newer_only=False)]


def test_vectors_are_read_as_they_were_written_or_refused() -> None:
    vectors = {"a": BitMap64([0, 5, 1 << 33]), "b": BitMap64(range(100_000))}
    file, descriptors = write_vectors(Path(), vectors)
    assert file is not None
    for path, vector in vectors.items():
        assert read_vector(Path(), descriptors[path]) == vector
    first, data = descriptors["a"], file.read_bytes()
    changes = ({"cardinality": 4}, {"sizeInBytes": 9}, {"storageType": "i"}, {"offset": 2})
    for change in changes:
        with pytest.raises(UnsupportedTable):
            read_vector(Path(), first | change)
    file.write_bytes(data[:20] + bytes([data[20] ^ 1]) + data[21:])
    with pytest.raises(UnsupportedTable, match=r"damaged"):
        read_vector(Path(), first)


# ---- with Spark, and beside it
@pytest.fixture
def vectors(spark: SparkSession) -> Iterator[None]:
    """New tables have deletion vectors, and Delta's bounds in their log."""
    with _set(spark, {**FULL, "spark.databricks.delta.stats.collect": "true"}):
        yield


@contextmanager
def _set(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            spark.conf.unset(name) if was is None else spark.conf.set(name, was)


class _Changes:
    """Changes of a table, and files of their messages. create: its CREATE TABLE, whose first column is the key."""

    def __init__(self, create: str) -> None:
        self._ts, self._files = _TS, 0
        Path("ddl.jsonl").write_text(json.dumps({"commit_ts": 1, "db": "d", "query": create}) + "\n")
        self._encoder = Encoder("open", ddl="ddl.jsonl")

    def file(self, rows: list[dict[str, Any]], op: str = "u") -> str:
        messages = []
        for row in rows:
            self._ts += 1 << 18
            change = {
                "kind": "row", "format": "open", "db": "d", "table": "t", "op": op, "commit_ts": self._ts,
                "key": [next(iter(row))], "schema_id": None, "table_version": None, "flags": [], "topic": "t",
                "before": row if op == "d" else None, "after": None if op == "d" else row,
            }  # fmt: skip
            messages += self._encoder.encode(change)
        self._files += 1
        return written(messages, f"{self._files}.jsonl")


def _merge(file: str, *more: str, out: str = "lake") -> int:
    argv = ["merge", "--format", "open", "--ddl", "ddl.jsonl", "--table", "d.t", "--in", file, *more]
    return main([*argv, "--engine", "delta-spark", "--out", f"delta:{out}"])


def _location(name: str = "lake") -> str:
    return str(Path(name).absolute())


def _read(spark: SparkSession, name: str = "lake") -> Any:
    return spark.read.format("delta").load(_location(name))


_TYPED: dict[str, tuple[str, list[Any]]] = {
    "id": ("BIGINT UNSIGNED", ["9223372036854775808", "18446744073709551615", "1", "2"]),
    "big": ("DECIMAL(38,10)", ["1234567890123456789012345678.0123456789", "-9999999999999999999999999999.9999999999",
                               "12345678901234567.8912000000", "0.0000000001"]),
    "money": ("DECIMAL(12,2)", ["0.10", "-9999999999.99", "9999999999.99", "12.34"]),
    "day": ("DATE", ["0001-01-01", "9999-12-31", "1582-10-04", "1969-12-31"]),
    "at": ("DATETIME(6)", ["0001-01-01 00:00:00.000001", "9999-12-31 23:59:59.999999", "1500-02-28 12:00:00.999999",
                           "2026-03-29 02:30:00.123456"]),
    "moment": ("TIMESTAMP(6)", ["1970-01-02 00:00:00.000001", "2038-01-01 00:00:00.999999",
                                "2026-06-01 00:00:00.000999", "2001-01-01 00:00:00.000000"]),
    "f": ("FLOAT", ["3.4028235e+38", "-1.1754944e-38", "16777216", "153.123"]),
    "g": ("DOUBLE", ["1.7976931348623157e+308", "5e-324", "-0", "0.1"]),
    "name": ("VARCHAR(200)", ["x" * 100, "é" * 33 + "\U0001f600", "", "a\0b\"\\'"]),
    "data": ("VARBINARY(9)", [{"hex": ""}, {"hex": "00ff"}, {"hex": "ff" * 9}, {"hex": "5c30"}]),
    "bits": ("BIT(9)", [{"hex": "01ff"}, {"hex": "0000"}, {"hex": "0100"}, {"hex": "0001"}]),
    "kind": ("ENUM('a','B')", ["a", "B", "", "a"]),
    "j": ("JSON", ['{"a": 1.10}', "null", "[]", '"x"']),
    "clock": ("TIME(3)", ["-838:59:59.000", "838:59:59.000", "00:00:00.001", "12:00:00.000"]),
    "y": ("YEAR", ["0", "1901", "2155", "2026"]),
}  # fmt: skip
_CREATE_TYPED = (
    f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, (kind, _) in _TYPED.items())}, PRIMARY KEY (id))"
)


@pytest.mark.slow
@pytest.mark.parametrize("types", ["exact", "typed"])
def test_values_and_filters_in_all_readers(
    spark: SparkSession, vectors: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], types: str
) -> None:
    """Files of Spark's whose rows are replaced by other files, with the extremes of each type in both: each value is
    found by a filter, which bounds leave files out for. As by Spark's way.
    """
    changes = _Changes(_CREATE_TYPED)
    rows = [{name: values[n] for name, (_, values) in _TYPED.items()} for n in range(4)]
    nulls = dict.fromkeys(_TYPED)
    first = changes.file([*rows, nulls | {"id": "3"}, *({**rows[n % 4], "id": str(100 + n)} for n in range(40))])
    second = changes.file([*rows[:2], nulls | {"id": "4"}, *({**rows[n % 4], "id": str(100 + n)} for n in range(4))])
    third = changes.file([*rows[2:], rows[0] | {"id": "105"}])
    options = ["--types", types, "--time-zone", "America/New_York"]
    for n, file in enumerate((first, second, third)):
        assert _merge(file, *options) == 0
        assert ("merged directly 1" in capsys.readouterr().err) == bool(n)
        with monkeypatch.context() as patch:
            patch.setattr(direct_merge, "find_spec", lambda _: None)
            assert _merge(file, *options, out="other") == 0
    ours, theirs = _read(spark), _read(spark, "other")
    assert ours.count() == theirs.count() == 46
    assert ours.exceptAll(theirs).isEmpty()
    with _set(spark, {"spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY"}):
        assert _read(spark).exceptAll(theirs).isEmpty()
    kinds, stored = dict(ours.dtypes), theirs.drop("_commit_ts").toArrow()
    for name in _TYPED:
        values = [value for value in stored.column(name).to_pylist() if value is not None]
        least, most = min(values), max(values)
        wanted = f"X'{most.hex()}'" if isinstance(most, bytes) else sql_literal(str(most))
        found = ours.where(f"`{name}` = CAST({wanted} AS {kinds[name]})").count()
        assert found == values.count(most), (name, most)
        if types == "exact":  # DuckDB's session has no text for times of other readers
            query = f'SELECT count(*) n FROM delta_scan(?) WHERE "{name}" = ?'
            (row,) = query_duckdb(query, [_location(), least], ("delta",))
            assert row["n"] == values.count(least), (name, least)
    if types == "exact":
        by_duckdb = delta_by_duckdb(_location())
        known = {row["id"]: row for row in stored.to_pylist()}
        assert {row["id"]: {name: row[name] for name in _TYPED} for row in by_duckdb} == known


@pytest.mark.slow
def test_what_others_do_between_batches(
    spark: SparkSession, vectors: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files are joined and removed, rows changed and brought back, the log loses its beginning: batches go on."""
    monkeypatch.setattr(direct_merge, "_CHECKPOINT_EVERY", 3)
    changes, table = _Changes("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(99))"), f"delta.`{_location()}`"
    expected = {str(n): "first" for n in range(30)}
    assert _merge(changes.file([{"id": key, "a": a} for key, a in expected.items()])) == 0
    last = ""

    def restore() -> None:
        newest = spark.sql(f"DESCRIBE HISTORY {table}").agg({"version": "max"}).collect()[0][0]
        spark.sql(f"RESTORE {table} TO VERSION AS OF {newest - 1}")
        expected[last] = "first"

    def forget_log() -> None:
        """As Delta does with what is older than 30 days."""
        jvm: Any = spark._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, _location()).checkpoint()
        folder = Path("lake", "_delta_log")
        newest = max(path.name for path in folder.glob("*.checkpoint.parquet"))[:20]
        for path in folder.glob("0*.json"):
            if path.name[:20] < newest:
                path.unlink()

    steps: dict[str, Callable[[], Any]] = {
        "OPTIMIZE": lambda: spark.sql(f"OPTIMIZE {table}"),
        "DELETE": lambda: spark.sql(f"DELETE FROM {table} WHERE id = 29"),
        "RESTORE": restore,
        "VACUUM": lambda: spark.sql(f"VACUUM {table} RETAIN 0 HOURS"),
        "log": forget_log,
        "REORG": lambda: spark.sql(f"REORG TABLE {table} APPLY (PURGE)"),
        "UPDATE": lambda: spark.sql(f"UPDATE {table} SET a = 'theirs' WHERE id = 28"),
    }
    with _set(spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
        for n, (name, step) in enumerate(steps.items()):
            step()
            expected.pop("29", None) if name == "DELETE" else None
            expected |= {"28": "theirs"} if name == "UPDATE" else {}
            rows, last = {str(key): name for key in range(n, 20, 5)}, str(20 + n)
            expected |= rows
            capsys.readouterr()
            assert _merge(changes.file([{"id": key, "a": a} for key, a in rows.items()])) == 0
            assert _merge(changes.file([{"id": last, "a": "first"}], "d")) == 0
            del expected[last]
            assert capsys.readouterr().err.count("merged directly 1") == 2, name
            assert {str(row["id"]): row["a"] for row in _read(spark).collect()} == expected, name
            by_duckdb = delta_by_duckdb(_location())
            assert {str(row["id"]): row["a"] for row in by_duckdb} == expected, name
    log_of.cache_clear()
    files = {Path(unquote(file)).name for file in _read(spark).inputFiles()}
    assert {Path(unquote(path)).name for path in log_of(_location()).snapshot().files} == files


_OTHERS = {
    "delta.enableRowTracking": ("true", "Delta's rowTracking"),
    "delta.enableInCommitTimestamps": ("true", "Delta's inCommitTimestamp"),
    "delta.checkpointPolicy": ("v2", "Delta's v2Checkpoint"),
    "delta.enableChangeDataFeed": ("true", "delta.enableChangeDataFeed true"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _OTHERS)
def test_tables_that_ask_more_are_written_by_spark(
    spark: SparkSession, vectors: None, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """The property comes while the job goes on, and what it asks for is done."""
    changes = _Changes("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9))")
    assert _merge(changes.file([{"id": str(n), "a": "first"} for n in range(9)])) == 0
    assert _merge(changes.file([{"id": "0", "a": "second"}])) == 0
    value, why = _OTHERS[name]
    assert "merged directly 1" in capsys.readouterr().err
    spark.sql(f"ALTER TABLE delta.`{_location()}` SET TBLPROPERTIES ('{name}' = '{value}')")
    assert _merge(changes.file([{"id": "0", "a": "third"}, {"id": "10", "a": "third"}])) == 0
    assert f"merged by Spark 1 (it has {why})" in capsys.readouterr().err
    rows = {row["id"]: row["a"] for row in _read(spark).collect()}
    assert rows == {**dict.fromkeys(range(1, 9), "first"), 0: "third", 10: "third"}
    if name == "delta.enableChangeDataFeed":
        newest = spark.sql(f"DESCRIBE HISTORY delta.`{_location()}`").agg({"version": "max"}).collect()[0][0]
        feed = spark.read.format("delta").options(readChangeFeed="true", startingVersion=newest).load(_location())
        kinds = sorted(row["_change_type"] for row in feed.collect())
        assert kinds == ["insert", "update_postimage", "update_preimage"]


@pytest.mark.slow
def test_clustered_tables_keep_bounds_and_their_columns(
    spark: SparkSession, vectors: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Delta asks for bounds of the columns by which a table is clustered; what these are stays in the checkpoint."""
    monkeypatch.setattr(direct_merge, "_CHECKPOINT_EVERY", 1)
    changes = _Changes("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(99), at DATETIME)")
    row = {"a": "x" * 99, "at": "2026-01-01 00:00:00"}
    options = ["--cluster-by", "a,at", "--types", "typed"]
    assert _merge(changes.file([{"id": str(n), **row} for n in range(9)]), *options) == 0
    for n in range(2):
        assert _merge(changes.file([{"id": str(n), **row}]), *options) == 0
    assert "merged directly 1" in capsys.readouterr().err
    newest = max(Path("lake", "_delta_log").glob("*.checkpoint.parquet")).name[:20]
    for path in Path("lake", "_delta_log").glob("0*.json"):
        if path.name[:20] < newest:
            path.unlink()
    spark.catalog.clearCache()
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    details = spark.sql(f"DESCRIBE DETAIL delta.`{_location()}`").collect()[0]
    assert details["clusteringColumns"] == ["a", "at"]
    for add in log_of(_location()).snapshot().files.values():
        stats = json.loads(add["stats"])
        assert len(stats["minValues"]) == len(stats["maxValues"]) == 4
    spark.sql(f"OPTIMIZE delta.`{_location()}` FULL")
    assert _read(spark).where(f"a = '{row['a']}' AND at = '{row['at']}'").count() == 9
    capsys.readouterr()
    assert _merge(changes.file([{"id": "20", **row}]), *options) == 0
    assert "merged directly 1" in capsys.readouterr().err


@pytest.mark.slow
def test_a_path_of_another_file_system_is_none_of_this_machine(spark: SparkSession) -> None:
    """Where Spark's paths are HDFS's, a folder of that name here is another table."""
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    table, before = SparkDelta(spark, "lake"), hadoop.get("fs.defaultFS")
    assert table.log_folder == _location()
    hadoop.set("fs.defaultFS", "hdfs://nowhere:8020")
    try:
        assert table.log_folder is None
        with pytest.raises(UnsupportedTable, match=NO_VECTORS):
            direct_merge.open_log(table)
    finally:
        hadoop.set("fs.defaultFS", before)


@pytest.mark.slow
def test_small_files_are_joined(
    spark: SparkSession, vectors: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the table and its deleted keys, without their rows that are gone; a table that is too large stays."""
    monkeypatch.setattr(direct_merge, "_MANY_FILES", 4)
    changes = _Changes("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9))")
    assert _merge(changes.file([{"id": str(n), "a": "first"} for n in range(30)])) == 0
    counts, expected = list[int](), dict.fromkeys(range(30), "first")
    for n in range(12):
        for rows, op in (([{"id": str(n), "a": f"{n}"}], "u"), ([{"id": str(29 - n), "a": ""}], "d")):
            assert _merge(changes.file(rows, op)) == 0
        expected[n] = f"{n}"
        del expected[29 - n]
        counts.append(len(log_of(_location()).snapshot().files))
        assert {row["id"]: row["a"] for row in _read(spark).collect()} == expected
    assert capsys.readouterr().err.count("merged directly 1") == 24
    assert max(counts) <= 8
    assert min(counts[3:]) == 1
    assert len(log_of(_location("lake__tombstones")).snapshot().files) <= 8
    assert _read(spark, "lake__tombstones").count() == 12
    with monkeypatch.context() as patch:
        patch.setattr(direct_merge, "_SMALL_FILE", 0)
        for n in range(8):
            assert _merge(changes.file([{"id": str(n), "a": "last"}])) == 0
    assert len(log_of(_location()).snapshot().files) > 8 - 4


@pytest.mark.slow
def test_avro_goes_directly_after_its_first_deletes(
    spark: SparkSession, vectors: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And remembers of deleted keys what Spark's way does."""
    registry = Registry()
    create = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9))"
    Path("ddl.jsonl").write_text(json.dumps({"commit_ts": 1, "db": "d", "query": create}) + "\n")
    encoder = Encoder("avro", registry=registry, ddl="ddl.jsonl", options={"enable_tidb_extension": True})
    offset = 0

    def merge(name: str, rows: dict[int, str | None], ts: int) -> None:
        nonlocal offset
        messages = []
        for id_, a in rows.items():
            row, ts = {"id": str(id_), "a": a}, ts + (1 << 18)
            change = {
                "kind": "row", "format": "avro", "db": "d", "table": "t", "op": "d" if a is None else "u",
                "key": ["id"], "commit_ts": ts, "schema_id": None, "table_version": None, "flags": [], "topic": "t",
                "before": row if a is None else None, "after": None if a is None else row,
            }  # fmt: skip
            for message in encoder.encode(change):
                time = (ts >> 18) + 100
                messages.append(replace(message, topic="t", partition=0, offset=offset, timestamp=time))
                offset += 1
        file = written(messages, f"{name}.jsonl")
        schemas = [
            {"subject": subject, "id": registry.id_of(subject, text), "version": n, "schema": text}
            for subject, texts in registry.subjects.items()
            for n, text in enumerate(texts, 1)
        ]
        Path("schemas.jsonl").write_text("".join(json.dumps(schema) + "\n" for schema in schemas))
        argv = ["merge", "--format", "avro", "--schemas", "schemas.jsonl", "--ddl", "ddl.jsonl", "--in", file]
        argv += ["--table", "d.t", "--time-zone", "UTC", "--engine", "delta-spark"]
        assert main([*argv, "--out", "delta:lake"]) == 0
        with monkeypatch.context() as patch:
            patch.setattr(direct_merge, "find_spec", lambda _: None)
            assert main([*argv, "--out", "delta:other"]) == 0
        for table in ("", "__tombstones"):
            ours, theirs = (_read(spark, n + table) for n in ("lake", "other"))
            assert ours.exceptAll(theirs).isEmpty()
            assert theirs.exceptAll(ours).isEmpty()

    merge("first", dict.fromkeys(range(9), "first"), _TS)
    merge("deletes", {0: None, 1: None, 2: "second"}, _TS + (100 << 18))
    capsys.readouterr()
    merge("upserts", {2: "third", 20: "third"}, _TS + (200 << 18))
    merge("late", {0: "late", 3: "fourth"}, _TS + (90 << 18))
    merge("back", {1: "back", 3: "fifth"}, _TS + (300 << 18))
    merge("again", {1: None, 3: None, 20: None, 4: "sixth", 0: "sixth"}, _TS + (400 << 18))
    merge("once more", {1: "seventh", 0: None, 20: "seventh"}, _TS + (500 << 18))
    err = capsys.readouterr().err
    assert (err.count("d.t merged directly 1"), err.count("d.t merged by Spark 1")) == (5, 5)
