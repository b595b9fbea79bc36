"""Files and folders in an object store: the commands do the same with s3:// as with a folder of this machine."""

import gzip
import pickle
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.spark_jobs.io.test_storage_sink import _COLUMNS, V1, _canal, _schema_file
from tests.support.golden import ROOT, Golden
from tests.support.python_words import assert_no_python_words
from tests.support.s3 import KEYS, Bucket, s3_server
from tests.support.table import check_rows
from tests.ticdc_bridge.cli.test_decode import BAD, DEBEZIUM, _file
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.io import stores
from ticdc_bridge.spark_jobs.io.message_files import read_messages
from ticdc_bridge.spark_jobs.io.object_paths import ObjectPath, path_of
from ticdc_bridge.spark_jobs.io.parquet import ParquetWriter
from ticdc_bridge.spark_jobs.runtime.spark_settings import SparkSettings

AVRO = Golden("avro", "evolution.ext1")


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Bucket]]:
    with s3_server() as started:
        yield started


@pytest.fixture(autouse=True)
def _environment(server: tuple[str, Bucket], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": server[0]}.items():
        monkeypatch.setenv(name, value)
    stores._connect.cache_clear()


def _inputs(folder: Path) -> None:
    """What the rows of the table read, below `folder`."""
    folder.mkdir()
    shutil.copy(AVRO.messages_file, folder / "avro.jsonl")
    shutil.copy(AVRO.meta_file, folder / "avro.meta.json")
    (folder / "avro.jsonl.gz").write_bytes(gzip.compress(AVRO.messages_file.read_bytes()))
    shutil.copy(DEBEZIUM.messages_file, folder / "debezium.jsonl")
    _file(folder / "bad.jsonl", [BAD])
    parquet = ParquetWriter(folder / "avro.parquet")
    for message in read_messages(AVRO.messages_file):
        assert not isinstance(message, tuple)
        parquet.write(message)
    parquet.close()
    (folder / "damaged.jsonl.gz").write_bytes(gzip.compress(AVRO.messages_file.read_bytes())[:-200])
    (folder / "damaged.parquet").write_bytes((folder / "avro.parquet").read_bytes()[:-9])
    (folder / "ddl.sql").write_text("CREATE TABLE test.t (id int primary key)")
    claims = ROOT / "tests" / "golden" / "open"
    shutil.copy(claims / "large.claimcheck.jsonl", folder / "claim.jsonl")
    shutil.copytree(claims / "large.claimcheck.files", folder / "claims")
    (folder / "dump").mkdir()
    (folder / "dump" / "test.t-schema.sql").write_text("CREATE TABLE t (id int primary key)")
    _schema_file(folder / "csv", V1, "CREATE TABLE orders (id int primary key)", _COLUMNS[:2])
    csv = folder / "csv" / "shop" / "orders" / str(V1)
    csv.mkdir(parents=True)
    (csv / "CDC000001.csv").write_text(f'"I","orders","shop",{V1 + 1},1,2.50\n"D","orders","shop",{V1 + 2},1,2.50\n')
    sink = folder / "sink"
    _schema_file(sink, V1, "CREATE TABLE orders (id int primary key)")
    data = sink / "shop" / "orders" / str(V1) / "2026-11-20"
    data.mkdir(parents=True)
    (data / "CDC000001.json").write_bytes(_canal(1, V1 + 1) + b"\r\n" + _canal(2, V1 + 2))
    (data / "CDC000002.json.gz").write_bytes(gzip.compress(_canal(3, V1 + 3)))


_AVRO = "--schemas {in}/avro.meta.json"
_DECODE = f"decode --format avro {_AVRO}"
_TRANSCODE = f"transcode --from avro --to debezium {_AVRO}"
_QUICK: dict[str, list[str]] = {
    "lines": [f"{_DECODE} --in {{in}}/avro.jsonl --out {{at}}/out/rows.jsonl"],
    "Parquet": [f"{_DECODE} --in {{in}}/avro.parquet --out {{at}}/rows.parquet"],
    "storage sink": ["decode --format canal-json --in {in}/sink --out {at}/rows.jsonl"],
    "dead letters, which go when there are none": [
        f"{_TRANSCODE} --in {{in}}/bad.jsonl --out {{at}}/d.jsonl",
        "replay --in {at}/d.jsonl.dead.jsonl --out {at}/again.jsonl",
        f"{_TRANSCODE} --in {{in}}/avro.jsonl --out {{at}}/d.jsonl",
    ],
    "not there": [f"{_DECODE} --in {{in}}/no.jsonl", f"{_DECODE} --in {{in}}/no.parquet"],
}
_SLOW: dict[str, list[str]] = {
    "compressed lines": [f"{_DECODE} --in {{in}}/avro.jsonl.gz --out {{at}}/rows.jsonl"],
    "standard output": [f"{_DECODE} --in {{in}}/avro.jsonl"],
    "columns of a table": [
        f"{_DECODE} --in {{in}}/avro.jsonl --table test.evo --out {{at}}/t.parquet",
        f"{_DECODE} --in {{in}}/avro.jsonl --table test.evo --out {{at}}/out/t+0+0.avro",
        f"{_DECODE} --in {{in}}/avro.jsonl --table test.evo --out {{at}}/out/t+1+0.avro",
        "decode --format auto --in {at}/out/t+0+0.avro",
        "decode --format auto --in {at}/out --out {at}/rows.jsonl",
    ],
    "there and back": [
        f"{_TRANSCODE} --in {{in}}/avro.jsonl --out {{at}}/d.jsonl",
        "decode --format debezium --in {at}/d.jsonl --out {at}/rows.jsonl",
        "encode --to debezium --in {at}/rows.jsonl --out {at}/again.jsonl",
    ],
    "a part of a sink's folder": [
        f"decode --format canal-json --in {{in}}/sink/shop/orders/{V1}",
        f"decode --format canal-json --in {{in}}/csv/shop/orders/{V1}/CDC000001.csv",
        f"decode --format canal-json --in {{in}}/csv/shop/orders/{V1}",
    ],
    "definitions": [
        "decode --format debezium --in {in}/debezium.jsonl --ddl {in}/ddl.sql",
        "decode --format debezium --in {in}/debezium.jsonl --ddl {in}/dump",
        "decode --format debezium --in {in}/debezium.jsonl --ddl {in}/no.sql",
        "decode --format debezium --in {in}/debezium.jsonl --from-options {in}/no.json",
    ],
    "explain": ["explain {in}/debezium.jsonl#2", "explain {in}/avro.parquet", "explain {in}/no.jsonl"],
    "verify": [
        "verify --from debezium --to debezium --in {in}/debezium.jsonl --against {in}/debezium.jsonl",
        f"verify --from avro --to debezium {_AVRO} --in {{in}}/avro.jsonl --against {{in}}/debezium.jsonl",
    ],
    "a folder without messages": [f"{_DECODE} --in {{in}}"],
    "out is a folder": [f"{_DECODE} --in {{in}}/avro.jsonl --out {{in}}/sink"],
    "out is in": [f"{_DECODE} --in {{in}}/avro.jsonl --out {{in}}/avro.jsonl"],
    "claim checks": [
        "decode --format debezium --in {in}/debezium.jsonl --claim-check-dir {in}/sink",
        "decode --format debezium --in {in}/debezium.jsonl --claim-check-dir {in}/no",
        "decode --format open --in {in}/claim.jsonl --claim-check-dir {in}/claims",
    ],
    "damaged": [f"{_DECODE} --in {{in}}/damaged.jsonl.gz", f"{_DECODE} --in {{in}}/damaged.parquet"],
}


def _filled(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(name, value)
    return word


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "rows", [pytest.param(_QUICK, id="quick"), pytest.param(_SLOW, marks=pytest.mark.slow, id="all")]
)
def test_objects_are_read_and_written_as_files_are(
    rows: dict[str, list[str]], server: tuple[str, Bucket], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit codes, both streams and all files that are there afterwards."""

    _inputs(tmp_path / "in")
    server[1].put_folder(tmp_path / "in", "in")

    def check(name: str) -> None:
        key = name.replace(" ", "-").replace(",", "")
        (tmp_path / key / "out").mkdir(parents=True)
        outcomes = []
        for root in (str(tmp_path), "s3://lake"):
            words = {"{in}": f"{root}/in", "{at}": f"{root}/{key}"}
            codes = [main([_filled(word, words) for word in line.split()]) for line in rows[name]]
            output = capsys.readouterr()
            outcomes.append((codes, output.out.replace(root, "ROOT"), output.err.replace(root, "ROOT")))
        assert outcomes[0] == outcomes[1]
        files = _files(tmp_path / key)
        assert sorted(files) == sorted(server[1].keys(f"{key}/"))
        for file, data in files.items():
            assert data == server[1].get(f"{key}/{file}"), file

    before = _files(tmp_path / "in")
    check_rows(rows, check)
    assert _files(tmp_path / "in") == before
    assert sorted(server[1].keys("in/")) == sorted(before)


_IN = ("decode", "--format", "debezium", "--in")
_REFUSED: dict[str, tuple[list[str], str]] = {
    "no bucket read": ([*_IN, "s3://nobody/m.jsonl"], "s3://nobody/m.jsonl: there is no such bucket"),
    "no bucket written": (
        [*_IN, "{local}", "--out", "s3://nobody/m.jsonl"], "s3://nobody/m.jsonl: there is no such bucket"
    ),
    "no bucket for dead letters": (
        ["transcode", "--from", "debezium", "--to", "open", "--in", "{local}", "--out", "-", "--dead-letter",
         "s3a://nobody/m"], "s3a://nobody/m: there is no such bucket",
    ),
    "a folder of no bucket": ([*_IN, "s3://nobody"], "s3://nobody: there is no such bucket"),
    "parameters": (
        [*_IN, "s3://lake/m?access-key=abc&secret-access-key=xyz"],
        "s3://lake/m?…: parameters of a URL are not read: settings come from the environment: AWS_ACCESS_KEY_ID",
    ),
    "HDFS without a server": ([*_IN, "hdfs:///m.jsonl"], "hdfs:///m.jsonl: name the server: hdfs://HOST:PORT/PATH"),
    "no bucket named": ([*_IN, "s3:///m.jsonl"], "s3:///m.jsonl: the bucket is missing: s3://BUCKET/KEY"),
    "two slashes": ([*_IN, "s3://lake/a//m.jsonl"], "a key with an empty name between two slashes"),
    "two slashes before the key": ([*_IN, "{local}", "--out", "s3://lake//m.jsonl"], "between two slashes"),
    "TiCDC's name of Azure": ([*_IN, "azblob://c/m"], "write abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"),
    "Azure without an account": ([*_IN, "abfs://c/m"], "the account is missing: write abfs://CONTAINER@ACCOUNT"),
    "HDFS": ([*_IN, "hdfs://name/m"], "this process has no HDFS client"),
    "HTTP": ([*_IN, "https://h/m.jsonl"], "it is a URL (https://): files and folders, object stores"),
    "metrics": ([*_IN, "{local}", "--metrics", "s3://lake/m"], "--metrics s3://lake/m: it is a URL (s3://)"),
    "Kafka's settings": (
        [*_IN, "kafka:T", "--bootstrap-servers", "h:1", "--kafka-config", "s3://lake/no"], "No such file or directory"
    ),
    "the same object by two schemes": (
        [*_IN, "s3://lake/m.jsonl", "--out", "s3a://lake/m.jsonl"], "--in and --out are the same place"
    ),
    "definitions": ([*_IN, "{local}", "--ddl", "s3://lake/no.sql"], "--ddl s3://lake/no.sql"),
}  # fmt: skip


def test_what_cannot_be_reached_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)

    def check(name: str) -> None:
        words, reported = _REFUSED[name]
        assert main([str(DEBEZIUM.messages_file) if word == "{local}" else word for word in words]) == 2
        err = capsys.readouterr().err
        assert reported in err
        assert "xyz" not in err
        assert_no_python_words(err)

    check_rows(_REFUSED, check)


def test_a_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    monkeypatch.setattr(stores, "_ATTEMPTS", 1)
    assert main([*_IN, "s3://lake/m.jsonl"]) == 2
    assert "error STORE_UNREACHABLE: s3://lake/m.jsonl: the store can't be reached (" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("When reading x: AWS Error ACCESS_DENIED during HeadObject operation: No response body.", "access is denied"),
        ("AWS Error UNKNOWN (HTTP status 301) during HeadObject operation: No response body.", "in another region"),
        ("google::cloud::Status(UNAUTHENTICATED: Unauthenticated)", "access is denied"),
    ],
)
def test_what_a_library_says_is_reported_plainly(text: str, told: str) -> None:
    error = stores.store_error("s3://lake/x", OSError(text))
    assert (error.code, told in error.detail, "AWS Error" in error.detail) == ("STORE_UNREACHABLE", True, False)


def test_paths_of_objects(server: tuple[str, Bucket]) -> None:
    path = path_of(Path("s3://lake/a/b.x"))
    assert isinstance(path, ObjectPath)
    assert (str(path), path.name, path.suffix, str(path.parent)) == ("s3://lake/a/b.x", "b.x", ".x", "s3://lake/a")
    assert str(path.with_name("c") / "d") == "s3://lake/a/c/d"
    assert (path_of(path), path_of(str(path)), pickle.loads(pickle.dumps(path))) == (path, path, path)
    assert (path.exists(), path.is_file(), path.is_dir(), path.parent.is_dir()) == (False, False, False, False)
    path.write_bytes(b"1\n2")
    assert (path.exists(), path.is_file(), path.parent.is_dir(), path.read_text()) == (True, True, True, "1\n2")
    assert (
        [str(entry) for entry in path.parent.rglob("*.x")]
        == [str(entry) for entry in path.parent.iterdir()]
        == [str(path)]
    )
    for use in (lambda: open(path), lambda: path.open("w")):  # noqa: SIM115
        with pytest.raises(SetupError, match="machine"):
            use()
    for key in ("a b/ä ö+0+1.x", "a/%41#?.x", "a/=&'\"{}[]*.x"):
        other = path_of(f"s3a://lake/{key}")
        other.write_bytes(key.encode())
        assert (server[1].get(key), other.read_text()) == (key.encode(), key)
        assert str(other) in [str(entry) for entry in other.parent.iterdir()]
        other.unlink()
    path.unlink()
    path.unlink(missing_ok=True)
    assert server[1].keys("a/") == []


def test_an_object_that_is_not_sent_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bucket goes away while the job runs."""
    path, part = ObjectPath("s3://nobody/rows.jsonl"), tmp_path / "part"
    part.write_text("rows")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with pytest.raises(SetupError, match=r"no such bucket\. What was to be written is in") as caught:
        path.put(part)
    assert Path(caught.value.detail.rpartition(" ")[2]).read_text() == "rows"


def test_where_spark_finds_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    locations = {
        "s3://b/k": "s3a://b/k", "S3N://b/k/": "s3a://b/k/", "gcs://b/k": "gs://b/k", "hdfs://n:8020/k": "hdfs://n:8020/k",
        "abfs://c@a.dfs.core.windows.net/k": "abfss://c@a.dfs.core.windows.net/k", "/folder": "/folder", "C:x": "C:x",
    }  # fmt: skip
    assert {location: stores.spark_location(location) for location in locations} == locations
    (s3,) = stores.stores_of(["s3://b/k", "delta:s3a://b/t", "x", "kafka:T", "delta:/t"])
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    config = stores.spark_config(s3)
    assert config["spark.hadoop.fs.s3a.endpoint.region"] == "eu-west-1"
    assert config["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert not [value for value in config.values() if value == KEYS["AWS_SECRET_ACCESS_KEY"]]
    for name in ("AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name)
    assert not any(name.endswith((".endpoint", ".region")) for name in stores.spark_config(s3))


def test_what_spark_needs_for_the_places_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "jars", lambda name, brought: [] if "hadoop-aws" in brought else [f"/{name}.jar"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://h:9")
    monkeypatch.delenv("BRIDGE_JARS", raising=False)
    endpoint = "spark.hadoop.fs.s3a.endpoint"

    def settings(*locations: str, submitted: bool = False, **given: list[str]) -> dict[str, str]:
        of = SparkSettings.of(None, given.get("conf", []), given.get("packages", []))
        return dict(stores.spark_settings_of(replace(of, locations=locations), submitted).conf)

    assert settings("kafka:T", "/folder", "delta:/t", "hdfs://n/t") == {}
    for location in ("s3://b/m.jsonl", "delta:s3a://b/t"):
        assert settings(location)["spark.jars"] == "/s3.jar"
        assert settings(location)[endpoint] == "http://h:9"
    assert settings(conf=["spark.sql.catalog.c.warehouse=s3://b/w"])["spark.jars"] == "/s3.jar"
    assert "spark.jars" not in settings("s3://b/t", submitted=True)
    assert not settings("s3://b/t", packages=["org.apache.hadoop:hadoop-aws:3.4.9"])["spark.jars"]
    assert settings("s3://b/t", conf=[f"{endpoint}=other", "spark.jars=a.jar"]) | {} == {
        **settings("s3://b/t"), endpoint: "other", "spark.jars": "/s3.jar,a.jar"
    }  # fmt: skip
    for location, package in (
        ("gs://b/t", "gcs-connector:hadoop3-"),
        ("abfs://c@a.x/t", "org.apache.hadoop:hadoop-azure:3."),
    ):
        with pytest.raises(
            SetupError, match=f"in Spark needs a driver that is not pinned here: give --packages .*{package}"
        ):
            settings(location)
        assert settings(location, packages=["g:some-driver:1"]) == {}
        assert settings(location, submitted=True) == {}
