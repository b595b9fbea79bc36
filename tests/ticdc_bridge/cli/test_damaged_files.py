"""Files that are none of what an option takes: each command says so with exit code 1 or 2, without a word of Python."""

from pathlib import Path

import pytest

from tests.support.golden import Golden
from tests.support.python_words import assert_no_python_words
from tests.support.table import check_rows
from ticdc_bridge.cli import main

AVRO = Golden("avro", "evolution.ext1")
_DDL = b'{"commit_ts":%s,"db":%s,"query":%s%s}'
_SCHEMA = b'{"subject":"a","version":%s,"id":%s,"schema":%s%s}'
FILES: dict[str, bytes] = {
    "empty": b"", "zeros": b"\0\0", "bytes": b"\xff\xfe\x00", "text": b"hello\n", "number": b"1\n", "null": b"null\n",
    "list": b"[1,2]\n", "object": b"{}\n", "objects": b'{"a":1}\n{"b":2}\n', "cut": b'{"a":', "deep": b"[" * 5000,
    "twice": b'{"a":1,"a":2}', "gzip": b"\x1f\x8b\x08", "zstd": b"\x28\xb5\x2f\xfd", "avro": b"Obj\x01\x04",
    "parquet": b"PAR1", "properties": b"=\n=x\na=b\n",
    "meta": b'{"steps":1}', "meta of numbers": b'{"steps":[1]}', "meta of nothing": b'{"steps":[{"kind":"ddl"}]}',
    "registered numbers": b'{"registered_schemas":[1]}', "registered object": b'{"registered_schemas":{"a":1}}',
    "schema is a number": _SCHEMA % (b"1", b"1", b"5", b""), "version is a text": _SCHEMA % (b'"1"', b"1", b'"x"', b""),
    "schema is no JSON": _SCHEMA % (b"1", b"1", b'"{"', b""),
    "references are a number": _SCHEMA % (b"1", b"1", b'"{}"', b',"references":5'),
    "references lack names": _SCHEMA % (b"1", b"1", b'"{}"', b',"references":[{"name":1}]'),
    "commit_ts is a text": _DDL % (b'"x"', b'"d"', b'"CREATE TABLE t(a int)"', b""),
    "no statement": _DDL % (b"1", b'"d"', b'"CREATE TABL"', b""), "db is a number": _DDL % (b"1", b"5", b'"x"', b""),
    "mode is a number": _DDL % (b"1", b'"d"', b'"CREATE TABLE t(a int)"', b',"mode":5'),
    "sql_mode is a number": _DDL % (b"1", b'"d"', b'"CREATE TABLE t(a int)"', b',"typed":true,"sql_mode":5'),
    "options is a number": b'{"options":5}', "zone is a number": b'{"time_zone":5}',
    "zone is null": b'{"time_zone":null}',
    "no zone": b'{"time_zone":"x"}', "option is a list": b'{"max_batch_size":[1]}', "row alone": b'{"kind":"row"}\n',
    "kind is a number": b'{"kind":5}\n', "topic is a number": b'{"kind":"row","topic":5}',
    "row of others": b'{"kind":"row","format":"open","db":"d","table":"t","op":"c","commit_ts":true,"key":[1],'
                     b'"before":1,"after":[],"flags":5}',
}  # fmt: skip


def _calls(file: str) -> list[list[str]]:
    decode = ["decode", "--format", "avro", "--in", "few.jsonl", "--out", "-"]
    given = [*decode, "--schemas", str(AVRO.meta_file)]
    return [
        ["decode", "--format", "open", "--in", file, "--out", "-"],
        [*decode, "--schemas", file],
        [*given, "--ddl", file],
        [*given, "--from-options", file],
        ["encode", "--to", "open", "--in", file, "--out", "-"],
        ["explain", file],
        ["transcode", "--from", "auto", "--to", "avro", "--to-schemas", file, "--in", file, "--out", "-"],
        ["decode", "--format", "open", "--in", "kafka:T", "--kafka-config", file],
    ]


@pytest.mark.slow
def test_what_is_said_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("few.jsonl").write_text("".join(AVRO.messages_file.read_text().splitlines(True)[:4]))

    def check(name: str) -> None:
        for suffix in ("", ".meta.json"):
            file = name.replace(" ", "_") + suffix
            Path(file).write_bytes(FILES[name])
            for call in _calls(file):
                code = main(call)
                out, err = capsys.readouterr()
                said = err + "".join(line for line in out.splitlines(True) if not line.startswith('{"kind": "row"'))
                assert code in (0, 1, 2), call
                if FILES[name] != FILES["properties"]:  # its text is shown
                    assert_no_python_words(said)

    check_rows(FILES, check)
