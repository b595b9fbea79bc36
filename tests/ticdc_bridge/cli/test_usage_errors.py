"""Wrong words, settings that fit nothing and registries that say no: exit code 2, and no output."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.support.python_words import assert_no_python_words
from tests.support.registries import answer, golden_registry, serving
from tests.support.table import check_rows
from tests.ticdc_bridge.cli.test_decode import AVRO, DEBEZIUM, _avro, _lines
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.io.locations import TableLocation, split_table_name, table_location_of, topic_of_location

# ---- wrong usage
_WRONG: tuple[tuple[list[str], str], ...] = (
    (["--time-zone", "Mars/Olympus"], "--time-zone: no time zone 'Mars/Olympus'"),
    (["--registry-wait", "soon"], ""),
    (["--schemas", "no.jsonl"], "no.jsonl"),
    (["--ddl", "ddl.jsonl"], "--ddl"),
    (["--ddl", "no.jsonl"], "no.jsonl"),
    (["--from-options", "bad.json"], "--from-options bad.json: not JSON"),
    (["--from-options", "list.json"], "object"),
    (["--from-options", "unknown.json"], "avro_decimal"),
    (["--from-options", "type.json"], "true or false"),
    (["--from-options", "choice.json"], "precise or string"),
    (["--in", "no.jsonl"], "no.jsonl"),
    (["--in", "."], "directory"),
    (["--in", "kafka:"], "topic"),
    (["--in", "kafka:T"], "--bootstrap-servers"),
    (["--out", "no/x.jsonl"], "x.jsonl"),
    (["--out", "x" * 300], "x: File name too long"),
    (["--dead-letter", "x" * 300], "x: File name too long"),
    (["--schemas", "x" * 300], "x: File name too long"),
    (["--in", "kafka:T", "--kafka-config", "no.conf"], "no.conf"),
    (["--in", "kafka:T", "--kafka-config", "bad.conf"], "bad.conf:2"),
    (["--in", "kafka:T", "--bootstrap-servers", "http://127.0.0.1:9092"], "HOST:PORT"),
    (["--in", "kafka:T", "--bootstrap-servers", "a:9092,https://b:9092"], "https://b:9092"),
    (["--in", "kafka:T", "--bootstrap-servers", "a:9092/topic"], "HOST:PORT"),
    (["--in", "kafka:T", "--bootstrap-servers", "a 9092"], "HOST:PORT"),
    (["--in", "ftp://bucket/m.jsonl"], "ftp"),
    (["--in", "wasb://c/m.jsonl"], "abfs://CONTAINER@ACCOUNT"),
    (["--in", "https://host/m.jsonl"], "https"),
    (["--in", "file:///m.jsonl"], "path alone"),
    (["--in", "kafka://T"], "kafka:TOPIC"),
    (["--in", "delta:lake"], "tables of the lake"),
    (["--out", "ftp://bucket/rows.jsonl"], "ftp"),
    (["--conf", "spark.a=1"], "--conf goes with Spark"),
    (["--master", "local"], "--master goes with Spark"),
    (["--packages", "g:a:1"], "--packages goes with Spark"),
    (["--spark", "--conf", "spark.a"], "KEY=VALUE"),
    (["--spark", "--conf", "fs.s3a.endpoint=http://h"], "spark.hadoop.fs.s3a.endpoint"),
    (["--spark", "--packages", "g:a"], "GROUP:ARTIFACT:VERSION"),
    (["--stream", "--checkpoint", "ftp://bucket/c"], "--checkpoint ftp"),
    (["--metrics", "s3://bucket/m"], "--metrics s3"),
    (["--dead-letter", "ftp://h/x.jsonl"], "ftp"),
    (["--schemas", "ftp://h/schemas.jsonl"], "--schemas ftp:/"),
    (["--ddl", "ftp://n/ddl.jsonl"], "--ddl ftp:/"),
    (["--claim-check-dir", "ftp://h/claims"], "--claim-check-dir ftp:/"),
    (["--from-options", "latin1.json"], "latin1.json: not JSON: byte"),
    (["--schemas", "bad.json"], "subject"),
    (["--schemas", "list.json"], "subject"),
    (["--schemas", "numbers.jsonl"], "subject"),
    (["--schemas", "latin1.json"], "neither UTF-8 nor UTF-16"),
    (["--ddl", "latin1.json"], "neither UTF-8 nor UTF-16"),
    (["--ddl", "numbers.jsonl"], "--ddl"),
    (["--kafka-config", "latin1.json", "--in", "kafka:T"], "not UTF-8"),
    (["--lineage", "localhost:8081"], "--lineage 'localhost:8081': http://host:port"),
    (["--patience", "soon"], "--patience soon: 5s"),
    (["--trigger", "soon"], "--trigger soon: 5s"),
    (["--tables", "bills"], "a dot is missing, write db.table; definitions are given by --ddl"),
    (["--tables", "stream"], "definitions are given by --ddl"),
    (["--spark", "--in", "no.jsonl"], "no.jsonl: No such file"),
)


def test_wrong_settings_end_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in {
        "ddl.jsonl": '{"commit_ts":1,"db":"d","query":"CREATE TABLE t(a int)"}\n' * 2,
        "bad.json": "{",
        "list.json": "[]",
        "unknown.json": '{"avro_decimals":"x"}',
        "type.json": '{"enable_tidb_extension":"yes"}',
        "choice.json": '{"avro_decimal_handling_mode":"exact"}',
        "bad.conf": "# a comment\nnonsense\n",
        "latin1.json": "{\u00e9}",
        "numbers.jsonl": "1\n[2]\n",
    }.items():
        Path(name).write_text(text, encoding="latin-1")

    def check(row: tuple[list[str], str]) -> None:
        more, reported = row
        argv = _avro(*more)
        if more[0] == "--registry-wait":
            argv = [*argv[:5], "--registry", "http://127.0.0.1:1", *more]
        assert main(argv) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert reported in err
        assert err.startswith("error USAGE: ")
        assert "Traceback" not in err
        assert_no_python_words(err)

    check_rows(_WRONG, check, lambda row: " ".join(row[0]))


def test_before_spark_starts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: object) -> None:
        raise AssertionError("Spark starts")

    monkeypatch.setattr("pyspark.sql.session.SparkSession.Builder.getOrCreate", start)
    Path("m.jsonl").touch()
    for words, reported in (
        ("merge --format open --in m.jsonl --out delta:x --engine iceberg-spark", "does not write Delta tables"),
        ("reconcile --lake delta:x --dump dumpling:none", "none: there is no such folder"),
        ("reconcile --lake delta:x --dump dumpling:none --out no/x", "no/x: its folder is not there: make it"),
        ("decode --spark --format open --in m.jsonl --out no/x", "no/x: its folder is not there: make it"),
        (
            "decode --spark --format open --in m.jsonl --out x --dead-letter no/x",
            "no/x: its folder is not there: make it",
        ),
    ):
        assert main([*words.split(), "--table", "d.t"]) == 2
        assert reported in capsys.readouterr().err
    assert main(["maintain", "--table-at", "delta:x", "--engine", "iceberg-spark"]) == 2
    assert "does not write Delta tables" in capsys.readouterr().err


def test_options_that_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    """Named before what is missing, which is often the one that was meant."""
    for words, reported in (
        ("decode --frmat avro", "decode: there is no option --frmat: did you mean --format?\n"),
        ("merge --zzzz=--format", "merge: there is no option --zzzz\n"),
        ("explain --tables x.sql", "explain: there is no option --tables: table definitions are given by --ddl\n"),
        ("decode --format avr0 --in x", "--format: 'avr0' is not one of 'avro', "),
        ("decode --format avr0 --in x", "'auto': did you mean avro?\n"),
        ("decode --format avro --in x --types typd", "'typd' is not one of 'exact', 'typed': did you mean typed?"),
        ("transcode --from avro --in x", "transcode: --to FORMAT is needed\nTry: ticdc-bridge transcode --help\n"),
        ("decode --format avro", "decode: where do messages come from? Give --in "),
        ("history snapshott", "ticdc-bridge history: No such command 'snapshott'. Did you mean 'snapshot'?\n"),
    ):
        assert main(words.split()) == 2
        assert reported in capsys.readouterr().err


def test_schemas_win_over_a_registry(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Told, unless the registry is the one that the environment names."""
    assert main(_avro("--registry", "http://user:secret@127.0.0.1:9")) == 0
    warning = capsys.readouterr().err
    assert "warning: --schemas " in warning
    assert "--registry http://" in warning
    assert "secret" not in warning
    monkeypatch.setenv("BRIDGE_REGISTRY", "http://127.0.0.1:9")
    assert main(_avro()) == 0
    assert "--registry" not in capsys.readouterr().err


def test_passwords_in_urls_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is wrong with the URL, by each option that takes a place."""
    for words in (
        ["decode", "--format", "open", "--in", "ftp://u:se/cr@et@h/x"],
        ["decode", "--format", "open", "--in", os.devnull, "--out", "ftp://u:secret@h/x"],
        ["decode", "--format", "open", "--in", os.devnull, "--ddl", "mysq://u:secret@h/x"],
        ["merge", "--format", "open", "--in", os.devnull, "--table", "a.b", "--out", "x://u:secret@h/x"],
        ["load", "--source", "mysq://u:secret@h", "--table", "a.b", "--out", "delta:x"],
        ["maintain", "--table-at", "s3://u:secret@h/x"],
        ["replay", "--in", "ftp://u:secret@h/x", "--out", "o"],
        ["health", "--url", "ftp://u:secret@h"],
    ):
        assert main(words) == 2
        err = capsys.readouterr().err
        assert "://***@h" in err or ":/***@h" in err, err


def test_load_and_reconcile_refuse_before_they_connect(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRIDGE_TIDB_CA", "no.pem")
    for words, reported in (
        ("load --source mysql://r@127.0.0.1:1 --out delta:x", "BRIDGE_TIDB_CA: there is no file no.pem"),
        ("load --source mysql://r@127.0.0.1:1 --out x", "--out x: delta:PATH or iceberg:CATALOG.DB.TABLE is needed"),
        ("reconcile --lake delta:x --tidb r@h", "Give --tidb mysql://USER@HOST:PORT or --dump dumpling:DIR-OR-URL"),
        ("reconcile --lake delta:x --dump mysql://r@h", "compare with what?"),
        ("reconcile --lake delta:x --tidb mysql://r@h --metrics :9300", "goes with --stream or --every"),
        ("reconcile --lake delta:x --tidb mysql://r@h --every 1h --metrics :70000", "--metrics :70000: a file or"),
        ("reconcile --lake delta:x --tidb mysql://r@h --lineage h:8081", "--lineage 'h:8081': http://host:port"),
    ):
        assert main([*words.split(), "--table", "a.b"]) == 2
        assert reported in capsys.readouterr().err


def test_what_the_target_lacks_is_named_by_its_option(capsys: pytest.CaptureFixture[str]) -> None:
    argv = [word if word != "--format" else "--from" for word in ["transcode", *_avro()[1:]]]
    for words, reported in (
        (["--to-schemas", "no.jsonl"], "error USAGE: --to-schemas no.jsonl: No such file"),
        (["--to-registry", "h"], "error USAGE: --to-registry 'h': http://host:port"),
        (["--to-options", "no.json"], "error USAGE: --to-options no.json: No such file"),
    ):
        assert main([*argv, "--to", "avro", "--time-zone", "UTC", *words]) == 2
        assert capsys.readouterr().err.startswith(reported)


@pytest.mark.parametrize("rule", ["{schema", "a}b", "{nope}", "{}"])
def test_a_topic_rule_with_a_brace_too_many(rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["transcode", "--from", "open", "--to", "open", "--in", os.devnull, "--out", "out.jsonl", "--topic", rule]
    assert main(argv) == 2
    assert f"topic rule {rule!r}: " in capsys.readouterr().err
    assert not Path("out.jsonl").exists()


def test_files_as_windows_writes_them(tmp_path: Path) -> None:
    """A byte order mark at the start, and both characters at the end of a line."""
    Path("options.json").write_bytes(b'\xef\xbb\xbf{\r\n"enable_tidb_extension": true}\r\n')
    Path("m.jsonl").write_bytes(b"\xef\xbb\xbf" + DEBEZIUM.messages_file.read_bytes().replace(b"\n", b"\r\n"))
    Path("ddl.sql").write_bytes(b"\xef\xbb\xbfCREATE TABLE d.t (\r\n a INT\r\n);\r\n")
    Path("job.toml").write_bytes(b'\xef\xbb\xbfformat = "debezium"\r\nsource = "m.jsonl"\r\n')
    argv = ["decode", "--file", "job.toml", "--from-options", "options.json", "--ddl", "ddl.sql", "--out", "rows.jsonl"]
    assert main(argv) == 0


def test_kafka_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(_avro("--in", "kafka:T", "--bootstrap-servers", "127.0.0.1:9")) == 2
    err = capsys.readouterr().err
    assert "error KAFKA_UNREACHABLE: Kafka at 127.0.0.1:9: it can't be reached" in err
    assert_no_python_words(err)


@pytest.mark.parametrize("command", ["encode", "explain", "verify", "merge", "replay"])
def test_every_command_says_which_places_it_reads(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = {"encode": ["--to", "open"], "verify": ["--from", "open", "--to", "open", "--against", "x.jsonl"],
             "merge": ["--format", "open", "--table", "a.b"]}  # fmt: skip
    out = {"merge": ["--out", "delta:x"], "encode": ["--out", "-"], "replay": ["--out", "-"]}
    for location in ("ftp://bucket/m.jsonl", "delta:lake"):
        if (command, location) == ("replay", "delta:lake"):
            continue
        assert main([command, *words.get(command, []), "--in", location, *out.get(command, [])]) == 2
        err = capsys.readouterr().err
        assert location in err
        assert "No such file" not in err


def test_where_tables_of_the_lake_are() -> None:
    for location in ("delta:/lake/bills", "delta:lake/bills", "delta:s3a://bucket/bills", "iceberg:lake.shop.bills"):
        assert topic_of_location(location) is None
        assert table_location_of(location) == TableLocation(*location.split(":", 1))
    for location, why in (
        ("delta://lake/bills", "write delta:PATH"),
        ("iceberg://lake/bills", "write iceberg:CATALOG"),
    ):
        with pytest.raises(SetupError, match=why):
            topic_of_location(location)


_ICEBERG_NAMES = [
    ("lake.shop.orders", ["lake", "shop", "orders"]),
    ("lake.a.b.orders", ["lake", "a", "b", "orders"]),
    ("lake.`my shop`.`or.``d`", ["lake", "my shop", "or.`d"]),
    ("lake.shop.`or.d`__tombstones", ["lake", "shop", "or.d__tombstones"]),
    ("läke.shöp.数", ["läke", "shöp", "数"]),
    *(
        (wrong, None)
        for wrong in ("", "orders", "shop.orders", "lake..orders", "lake.shop.", ".a.b", "lake.shop.`or", "a.b.``")
    ),
]


def test_names_of_iceberg_tables() -> None:
    def check(case: tuple[str, list[str] | None]) -> None:
        name, pieces = case
        if pieces is not None:
            assert [*split_table_name(name)] == pieces
        else:
            with pytest.raises(SetupError, match=r"CATALOG\.DB\.TABLE"):
                table_location_of(f"iceberg:{name}")

    check_rows(_ICEBERG_NAMES, check)


def test_schemas_are_needed_where_the_format_needs_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "--format", "avro", "--in", str(AVRO.messages_file)]) == 2
    assert "--registry URL or --schemas FILE" in capsys.readouterr().err
    argv = ["transcode", "--from", "debezium", "--to", "avro", "--in", str(DEBEZIUM.messages_file), "--out", "o.jsonl"]
    assert main(argv) == 2
    assert "--registry URL or --schemas FILE" in capsys.readouterr().err


# ---- registry
def _registry(url: str) -> list[str]:
    words = ["--registry", url, "--registry-wait", "0.2s", "--out", "o.jsonl"]
    return ["decode", "--format", "avro", "--in", str(AVRO.messages_file), *words]


def test_the_registry_can_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(golden_registry(AVRO)) as server:
        monkeypatch.setenv("BRIDGE_REGISTRY", server.url)
        assert main(["decode", "--format", "avro", "--in", str(AVRO.messages_file), "--time-zone", AVRO.zone]) == 0
    assert _lines(capsys.readouterr().out) == AVRO.plain()


def test_a_registry_that_is_down_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://me:s3cret@127.0.0.1:{taken.getsockname()[1]}"
        assert main(_registry(url)) == 2
    err = capsys.readouterr().err
    assert err.startswith("error REGISTRY_UNREACHABLE: schema registry http://127.0.0.1:")
    assert "s3cret" not in err
    assert not Path("o.jsonl").exists()


@pytest.mark.parametrize(("status", "code"), [(401, "REGISTRY_REFUSED"), (500, "REGISTRY_UNREACHABLE")])
def test_a_registry_that_says_no_ends_with_2_and_leaves_no_output(
    status: int, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def respond(_method: str, path: str, _body: bytes) -> Any:
        return answer(200, {}) if path == "/" else answer(status, {"message": "no"})

    with serving(respond) as server:
        url = f"http://me:s3cret@127.0.0.1:{server.port}"
        assert main(_registry(url)) == 2
    err = capsys.readouterr().err
    assert code in err
    assert "s3cret" not in err
    assert not Path("o.jsonl").exists()
