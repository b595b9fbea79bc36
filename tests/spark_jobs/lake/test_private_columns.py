"""Private columns: no table of the lake, dead letter or checkpoint has their values, whatever they are called."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
import pytest

from tests.spark_jobs.lake.test_direct_merge import _FORMATS as FORMATS
from tests.spark_jobs.lake.test_direct_merge import ROUNDS, SEED
from tests.spark_jobs.lake.test_many_tables import OUT, change, messages
from tests.spark_jobs.lake.test_merge import rows
from tests.spark_jobs.lake.test_random_histories import _location as location_of
from tests.spark_jobs.lake.test_random_histories import _write_schemas as write_schemas
from tests.support.dumps import write_dump
from tests.support.lake_histories import Delivery, History
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.cli import main
from ticdc_bridge.clients.history import HistoryTables
from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.arrow.change_schema import change_schema
from ticdc_bridge.spark_jobs.arrow.library import pa
from ticdc_bridge.spark_jobs.arrow.masked_rows import mask_changes
from ticdc_bridge.spark_jobs.lake.column_masks import follow_renames
from ticdc_bridge.spark_jobs.lake.engines.delta_features import FULL
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.private_columns import METHODS, NOT_PRIVATE, PrivateColumns
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice
from ticdc_bridge.spark_jobs.streaming.checkpoint import Checkpoint
from ticdc_bridge.spark_jobs.streaming.stages import DefinitionLearner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = "a key of the tests' own"
CREATE = "CREATE TABLE users (id INT PRIMARY KEY, email VARCHAR(40), phone BIGINT, name VARCHAR(20), token TEXT)"
RULES = ["--exclude", "*token*", "--mask", "email=hmac,phone=sha256", "--mask", "name=null"]
_HISTORY_RULES = ["--exclude", "c", "--mask", "a=null,id=hmac"]
SECRET = "secret"
"""Is in all private values."""


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_MASK_KEY", KEY)


def _hmac(text: str) -> str:
    return hmac.digest(KEY.encode(), text.encode(), "sha256").hex()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _ddl(*more: tuple[int, str]) -> str:
    lines = [{"commit_ts": ts, "db": "shop", "query": query} for ts, query in [(1, CREATE), *more]]
    Path("ddl.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return "ddl.jsonl"


def _user(ts: int, number: int, called: str = "email", **more: str | None) -> dict[str, Any]:
    after = {called: f"{SECRET}{number}@x", "phone": str(100 + number), "name": f"{SECRET} name", "token": SECRET}
    return change("shop.users", ts, id=str(number), **(after | more))


def _merge(*words: str) -> int:
    argv = ["merge", "--format", "open", "--ddl", "ddl.jsonl", "--table", "shop.users", "--engine", "delta-spark"]
    return main([*argv, "--in", "in.jsonl", "--out", "delta:lake", *words])


def _files_with(text: str, folder: str = ".") -> list[str]:
    """The files of the lake that have a text, also in compressed columns."""
    found = list[str]()
    for path in Path(folder).rglob("*"):
        if path.is_file() and path.suffix == ".parquet":
            content = repr(pyarrow.parquet.ParquetFile(path).read().to_pylist()).encode()
        else:
            content = path.read_bytes() if path.is_file() else b""
        found += [str(path)] if text.encode() in content else []
    return found


@pytest.mark.parametrize("features", [FULL, {}], ids=["directly", "by Spark"])
def test_no_value_of_a_private_column_is_written(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], features: dict[str, str]
) -> None:
    """RENAME of a private column, and ADD of one that a pattern takes; also in changelog, versions and dead letters."""
    past = ["--changelog", "delta:log", "--versions", "delta:versions", "--dead-letter", "delta:dead"]
    more = [] if features else past
    for name, value in features.items():
        spark.conf.set(name, value)
    try:
        _ddl()
        messages(*(_user(10 + n, n) for n in range(9)))
        assert _merge(*RULES, *more) == 0
        gone = _user(31, 2)
        messages(
            _user(30, 1, email=f"{SECRET}@new", phone=None), {**gone, "op": "d", "before": gone["after"], "after": None}
        )
        assert _merge(*RULES, *more) == 0
        assert ("shop.users merged directly 1" in capsys.readouterr().err) is bool(features)
        _ddl((40, "ALTER TABLE users RENAME COLUMN email TO contact"), (41, "ALTER TABLE users ADD new_token TEXT"))
        messages(_user(50, 7, "contact", new_token=SECRET), _user(51, 20, "contact", new_token=SECRET))
        if more:
            with open("in.jsonl", "a", encoding="utf-8") as file:
                file.write('{"key_b64": "AAAA", "value_b64": "c2VjcmV0"}\n')  # "secret", which no decoder can read
        assert _merge(*RULES, *more) == int(bool(more))
    finally:
        for name in features:
            spark.conf.unset(name)
    found = {row["id"]: row for row in rows(spark, "lake", by_spark=True)}
    emails = {n: f"{SECRET}{n}@x" for n in (*range(9), 20) if n != 2} | {1: f"{SECRET}@new"}
    assert found == {
        n: {"id": n, "contact": _hmac(email), "phone": None if n == 1 else _sha256(str(100 + n)), "name": None}
        for n, email in emails.items()
    }
    folders = ["lake", "lake__tombstones", *(["log", "versions", "dead"] if more else [])]
    assert [file for folder in folders for file in _files_with(SECRET, folder)] == []
    if more:
        letter = spark.read.format("delta").load(str(Path("dead").absolute())).collect()
        assert [(row["key"], row["value"]) for row in letter] == [(None, None)]
        assert {h["key"] for h in letter[0]["headers"]} == {
            f"bridge.{n}" for n in ("reason", "detail", "origin", "attempt")
        }


def test_a_table_keeps_its_rules(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Others would mix values and hashes, or bring values back."""
    _ddl()
    messages(_user(10, 1))
    assert _merge(*RULES, "--engine", "deltalake") == 0
    for rules in (
        [], RULES[2:], RULES[:-2], [*RULES, "--exclude", "phone"], ["--mask", "email=sha256,phone=sha256,name=null"],
    ):  # fmt: skip
        messages(_user(20, 2))
        assert _merge(*rules, "--engine", "deltalake") == 2, rules
        assert "its private columns were others" in capsys.readouterr().err
    assert _merge(*RULES, "--engine", "deltalake") == 0


def test_other_rules_read_nothing(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Not a chunk of a load, whose stage would keep its values, and no difference, which would show them."""
    create = "CREATE TABLE `users` (`id` int NOT NULL, `email` varchar(40), PRIMARY KEY (`id`))"
    source = write_dump(Path("dump"), 100, create, [("1", "secret")], db="shop", table="users")
    words = ["load", "--source", source, "--table", "shop.users", "--out", "delta:lake", "--engine", "deltalake"]
    assert main([*words, "--mask", "email=hmac"]) == 0
    assert main([*words, "--replace"]) == 2
    compare = ["reconcile", "--dump", source, "--table", "shop.users", "--lake", "delta:lake", "--wait", "0s"]
    assert main([*compare, "--out", "differences.jsonl", "--engine", "deltalake"]) == 2
    assert capsys.readouterr().err.count("its private columns were others") == 2
    assert [file for file in _files_with(SECRET) if not file.startswith("dump")] == []


def test_what_can_not_be_masked(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _ddl((5, "ALTER TABLE users ADD born DATE"))
    messages(_user(10, 1, born=None))
    cases = {
        "--exclude id": "is of the key", "--mask id=sha256": "is of the key", "--mask born=hmac": "texts and integers",
        "--exclude emial": "there is no column emial", "--mask email=md5": "METHOD one of null, hmac, sha256",
    }  # fmt: skip
    for words, text in cases.items():
        assert _merge(*words.split(), "--engine", "deltalake") == 2
        assert text in capsys.readouterr().err
    monkeypatch.setenv("BRIDGE_MASK_KEY", "short")
    assert _merge(*RULES) == 2
    assert "BRIDGE_MASK_KEY" in capsys.readouterr().err


def test_hashes_that_nothing_tells(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """After a change of type, and where a hash tells no partition, the rows are to be loaded again."""
    statements = {
        "email=sha256": "ALTER TABLE users MODIFY email VARCHAR(30)",
        "phone=sha256": "ALTER TABLE users MODIFY phone TEXT",
        "id=hmac": "ALTER TABLE users DROP PARTITION p0",
    }
    parts = "ALTER TABLE users PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS"
    parts += " THAN MAXVALUE)"
    for rule, statement in statements.items():
        words = ["--mask", rule, "--out", f"delta:{rule}", "--engine", "deltalake"]
        _ddl((2, parts))
        messages(_user(10, 1), _user(11, 7))
        assert _merge(*words) == 0
        _ddl((2, parts), (20, statement))
        messages(_user(30, 8))
        assert _merge(*words) == 2, rule
        assert "nothing tells the hashes" in (error := capsys.readouterr().err) or "is private" in error
        assert "load --source" in error


def test_load_and_merge_have_the_same_hashes(spark: SparkSession) -> None:
    """Also of a key; the rules stand in the job's file."""
    create = "CREATE TABLE `users` (`mail` varchar(40) COLLATE utf8mb4_bin NOT NULL, `n` int, `token` text,"
    create += " PRIMARY KEY (`mail`))"
    source = write_dump(
        Path("dump"), 100, create, [("a", "1", "secret"), ("b", "2", "secret")], db="shop", table="users"
    )
    Path("ddl.jsonl").write_text(json.dumps({"commit_ts": 1, "db": "shop", "query": create}) + "\n")
    messages(*(change("shop.users", 200 + n, mail=mail, n="9", token="secret") for n, mail in enumerate("bc")))
    Path("job.toml").write_text(f"""tables = ["shop.users"]
target = "{OUT}"
[load]
source = "{source}"
[merge]
source = "in.jsonl"
format = "open"
ddl = "ddl.jsonl"
[[table]]
name = "shop.users"
exclude = ["token"]
mask = {{mail = "hmac", n = "sha256"}}
""")
    for command in ("load", "merge", "load"):
        assert main([command, "--file", "job.toml", "--engine", "deltalake"]) == 0
    found = {row["mail"]: row for row in rows(spark, "lake/shop/users")}
    assert found == {_hmac(m): {"mail": _hmac(m), "n": _sha256(n)} for m, n in (("a", "1"), ("b", "9"), ("c", "9"))}
    assert _files_with("secret", "lake") == []


def test_random_rows_are_masked_as_one_by_one() -> None:
    """Arrow's arrays of several tables at once, slices of them, and rows that are missing."""
    chance, schema = random.Random(1), change_schema()
    choice = TableChoice.of(["s.a", "s.b"])
    rules = PrivateColumns.of(["x*"], ["y=hmac", "z=null", "w=sha256"], choice, [])
    private = PrivateColumns(rules.rules, KEY.encode())
    for _ in range(60):
        events = []
        for _ in range(chance.randrange(40)):
            images = {
                image: {name: chance.choice(["", "é", None, "1"]) for name in chance.sample("xX_yYzwvu", 4)}
                for image in ("before", "after") if chance.random() < 0.7
            }  # fmt: skip
            events.append({"kind": "row", "db": "s", "table": chance.choice("aAbc"), **images})
        array = pa.array([None, *events, None], pa.struct(list(schema)))
        begin = chance.randrange(len(array))
        expected = array.slice(begin).to_pylist()
        for event in filter(None, expected):
            mask = private.of_table([TableId(event["db"], event["table"])])
            for image in ("before", "after"):
                if event[image] is not None:
                    pairs = [(name, mask.method_of(name), text) for name, text in event[image]]
                    event[image] = [
                        (name, text if method is None else None if text is None or method == "null"
                         else mask.hash(text, method))
                        for name, method, text in pairs if method != "exclude"
                    ]  # fmt: skip
        assert mask_changes(array.slice(begin), private).to_pylist() == expected


def test_renames_unmask_nothing() -> None:
    """A chain of renames, both ways, over a swap and over a table's own RENAME."""
    queries = [
        "CREATE TABLE t (a INT PRIMARY KEY, b TEXT, c TEXT, d TEXT)", "ALTER TABLE t RENAME COLUMN b TO e",
        "RENAME TABLE t TO u", "ALTER TABLE u RENAME COLUMN e TO c, RENAME COLUMN c TO e",
        "ALTER TABLE u RENAME COLUMN d TO f", "ALTER TABLE u CHANGE f g VARCHAR(9)",
    ]  # fmt: skip
    statements = [DdlText(ts, "s", query) for ts, query in enumerate(queries, 1)]
    for pattern, expected in {"b": set("bce"), "g": set("dfg"), "d": set("dfg"), "a": {"a"}}.items():
        private = PrivateColumns.of([pattern], [], TableChoice.of(["s.t"]), [])
        followed = follow_renames(private, statements)
        for table in "tu":
            mask = followed.of_table([TableId("S", table)])
            assert mask.methods == dict.fromkeys(expected, METHODS[0])
            assert mask.rules == private.rules  # of columns that come later


def test_rules_stay_while_changes_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are masked already, by the rules and the key of then; without any, too."""
    rules = PrivateColumns.of([], ["email=hmac"], TableChoice.of(["shop.*"]), [])
    monkeypatch.setenv("BRIDGE_MASK_KEY", KEY[::-1])
    other_key = PrivateColumns.of([], ["email=hmac"], TableChoice.of(["shop.*"]), [])
    checkpoint = Checkpoint(tmp_path / "checkpoint", {})
    for digest in (rules.digest, other_key.digest):
        with pytest.raises(SetupError, match="masked by other rules"):
            checkpoint.check_rules(digest, are_waiting=True)
        checkpoint.check_rules(digest, are_waiting=False)
        checkpoint.check_rules(digest, are_waiting=True)
    assert len({rules.digest, other_key.digest, NOT_PRIVATE.digest}) == 3


def test_a_rename_that_the_history_gets_while_workers_wait() -> None:
    """The batch is read again: its masks had the names of before."""
    statements = [DdlText(1, "shop", CREATE)]

    class Service(HistoryTables):
        def __init__(self) -> None: ...

        def statements(self, of: TableId | None = None) -> list[DdlText]:
            return [*statements]

    private = PrivateColumns.of([], ["email=hmac"], TableChoice.of(["shop.*"]), [])
    job = Job(CodecConfig("avro", FileSchemas([]), Options(), Service()), private=private)
    learner = DefinitionLearner(job, None, (), None)
    learner.learn(None, 0)  # type: ignore[arg-type]
    statements.append(DdlText(2, "shop", "ALTER TABLE users RENAME COLUMN email TO contact"))
    assert learner.is_behind
    assert len(learner.history()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_masked_table_is_the_table_masked(spark: SparkSession, number: int) -> None:
    """By random histories in all formats, with late and repeated changes, swaps of names and names that return."""
    format_ = FORMATS[number % len(FORMATS)]
    history = History(f"{SEED}/private/{number}", split=True, swaps=True)
    encoded, argv = write_schemas(format_, history)
    argv += ["--ddl", "all.jsonl", "--engine", "delta-spark"]
    for n, (batch, _) in enumerate(Delivery(history, encoded, format_ == "avro").batches(3)):
        file = written(batch, f"{n}.jsonl")
        assert main([*argv, "--in", file, "--out", "delta:plain"]) == 0
        assert main([*argv, "--in", file, "--out", "delta:lake", *_HISTORY_RULES]) == 0, f"{format_} {history.seed}"
    statements = [DdlText(ts, "d", text) for ts, text in history.statements]
    private = PrivateColumns.of([_HISTORY_RULES[1]], _HISTORY_RULES[3].split(","), TableChoice.of(["d.t"]), [])
    mask = follow_renames(private, statements).of_table([TableId("d", "t")])
    expected = list[dict[str, Any]]()
    for row in rows(spark, "plain", by_spark=True):
        methods = {name: mask.method_of(name) for name in row}
        values = {name: None if methods[name] == "null" else value for name, value in row.items()}
        values["id"] = _hmac(str(row["id"]))
        expected.append({name: value for name, value in values.items() if methods[name] != "exclude"})
    assert rows(spark, "lake", by_spark=True) == sorted(expected, key=lambda row: str(row["id"]))


def test_iceberg_keeps_rules_that_spark_hides(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Spark shows no property with a word such as token: names of tables and columns, the key's too."""
    argv = ["merge", "--format", "open", "--ddl", "ddl.jsonl", "--in", "in.jsonl", "--table", "shop.access_tokens"]
    argv += ["--out", location_of(spark, "iceberg-spark")]
    queries = ["CREATE TABLE access_tokens (token INT PRIMARY KEY, url TEXT)", "ALTER TABLE access_tokens ADD n INT"]
    lines = [json.dumps({"commit_ts": 10 * n + 1, "db": "shop", "query": query}) for n, query in enumerate(queries)]
    for count, more in enumerate(({}, {"n": "5"}), 1):
        Path("ddl.jsonl").write_text("\n".join(lines[:count]))
        messages(change("shop.access_tokens", 10 * count, token=str(count), url=SECRET, **more))
        assert main([*argv, "--mask", "url=sha256"]) == 0, capsys.readouterr().err
    assert main(argv) == 2
    assert "its private columns were others" in capsys.readouterr().err
    found = {row["token"]: row["url"] for row in spark.table(argv[-1].removeprefix("iceberg:")).collect()}
    assert found == dict.fromkeys((1, 2), _sha256(SECRET))
