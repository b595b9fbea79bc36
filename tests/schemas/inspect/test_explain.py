"""explain: what it says of a message is what the message holds, byte by byte."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.each import each
from tests.support.fuzz import amounts
from tests.support.golden import READ, Golden, cases
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.codec import json_exact
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.format_table import FORMATS
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.inspect.explain import ExplainRequest, explain, traces
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.io.locations import KafkaClient
from ticdc_bridge.spark_jobs.jobs.explain import find, render

WIDE = [next(g for g in cases(n) if g.name.startswith("wide.")) for n in READ]
TRACED = ("avro", "debezium", "open", "simple", "canal-json")


def _ask(golden: Golden, message: Message, ddl: bool = True, **more: Any) -> dict[str, Any]:
    image = golden.side(ddl)
    options = Options.of({"enable_tidb_extension": True}, time_zone=golden.zone)
    return explain(
        ExplainRequest(
            message, golden.format, image.context(), options, image.schemas.versions_of_id, golden.messages(), **more
        )
    )


@pytest.mark.parametrize("golden", WIDE, ids=str)
def test_every_message_is_explained(golden: Golden) -> None:
    """All of it is JSON, and text of at most 100 columns; the values are decode's."""
    plain = golden.plain(ddl=True)
    for message in golden.messages():
        answer = _ask(golden, message)
        json.dumps(answer)
        assert max(map(len, render(answer).splitlines())) <= 100
        assert answer["framing"]
        for event in answer["events"]:
            line = plain.pop(0)
            # A message alone does not tell what earlier ones proved of its encoder (Craft).
            flags = [f for f in line.get("flags", ()) if not f.startswith("float_damaged") or f in event["flags"]]
            assert (event["kind"], event.get("flags", [])) == (line["kind"], flags)
            if event["kind"] == "row":
                want = [(s, n, v) for s in ("before", "after") for n, v in (line[s] or {}).items()]
                assert [(f["side"], f["column"], f["value"]) for f in event["fields"]] == want
                assert set(event["elsewhere"]) == set(FORMATS) - {golden.format}
    assert plain == []


@pytest.mark.parametrize(
    "golden",
    [*(g for g in WIDE if g.format in TRACED), Golden("simple", "wide.json"), Golden("simple", "wide.avro")],
    ids=str,
)
def test_bytes_are_where_they_are_said_to_be(golden: Golden) -> None:
    """Offset and length name the bytes shown; the fields of a part do not overlap."""
    seen = 0
    for message in golden.messages():
        for event in _ask(golden, message)["events"]:
            fields = [f for f in [*event.get("fields", ()), *event.get("beside", ())] if f["hex"] is not None]
            for message_field, data in (("key", message.key), ("value", message.value)):
                end = 0
                for field in sorted((f for f in fields if f["part"] == message_field), key=lambda f: f["offset"]):
                    assert data is not None
                    raw = data[field["offset"] : field["offset"] + field["bytes"]]
                    assert raw.hex().startswith(field["hex"].rstrip("…"))
                    assert len(raw) == field["bytes"] > 0
                    assert field["offset"] >= end
                    end = field["offset"] + field["bytes"]
                    seen += 1
            if event["kind"] == "row":
                assert all(f["hex"] is not None for f in event["fields"])
    assert seen > 100


def test_avro_field_by_field() -> None:
    golden = Golden("avro", "wide.before.ext1")
    message = next(m for m in golden.messages() if m.value and b"\x02u" in m.value)
    answer = _ask(golden, message)
    assert [s["registered"] for s in answer["schemas"]] == [
        [{"subject": "tidb_test_wide-key", "version": 1}],
        [{"subject": "tidb_test_wide-value", "version": 1}],
    ]
    [event] = answer["events"]
    assert {f["side"] for f in event["fields"]} == {"before", "after"}
    assert event["types_from"].startswith("the table's version of commit_ts")
    assert {b["name"]: b["value"] for b in event["beside"]}["_tidb_op"] == "u"
    cell = next(f for f in event["fields"] if (f["side"], f["column"]) == ("after", "c_dec_10_2"))
    assert (cell["type"], cell["wire"], cell["value"]) == ("decimal(10,2)", "null | bytes", "-0.01")
    assert cell["elsewhere"]["debezium"] == "-0.01"
    assert event["elsewhere"]["simple"] == {"skipped": "it is read, not written"}


def test_a_value_that_another_format_can_not_hold() -> None:
    """The error, and what --on-lossy flag would write."""
    golden = Golden("avro", "wide.ext1")
    reported = [_ask(golden, m)["events"][0]["elsewhere"]["debezium"] for m in golden.messages()]
    refused = [t for t in reported if "error" in t]
    assert refused
    assert {t["error"]["code"] for t in refused} == {"LOSSY_VALUE"}
    assert all(t["with_on_lossy_flag"]["value_bytes"] > 0 for t in refused)


def test_a_key_only_delete_is_read_from_the_key() -> None:
    golden = Golden("avro", "pk_int.ext1")
    message = next(m for m in golden.messages() if m.value is None)
    [event] = _ask(golden, message)["events"]
    [field] = event["fields"]
    assert (field["side"], field["column"], field["part"], field["offset"]) == ("before", "id", "key", 5)


@each(
    ("message", "code"),
    [
        (Message(None, None), "UNKNOWN_FORMAT"),
        (Message(None, b"\x00\x00\x00\x00\x7fx"), "UNKNOWN_SCHEMA_ID"),
        (Message(None, b'{"payload":{"source":{"connector":"TiCDC"}}}'), "MALFORMED"),
        (Message(b"\xff", b"\xff" * 5000), "UNKNOWN_FORMAT"),
    ],
)
def test_what_can_not_be_read_is_shown(message: Message, code: str) -> None:
    golden = Golden("avro", "pk_int.ext1")
    image = golden.side()
    answer = explain(ExplainRequest(message, "auto", image.context(), Options()))
    assert answer["error"]["code"] == code
    assert len(answer["raw"]["value"] or "") <= 512
    assert code in render(answer)
    assert max(map(len, render(answer).splitlines())) <= 100


@pytest.mark.parametrize("mutations", amounts(5, 40))
def test_damaged_messages_are_explained_or_refused(mutations: int) -> None:
    import random

    rng = random.Random(20261121)
    for golden in WIDE:
        pool = [m for m in golden.messages() if m.value][:4]
        for _ in range(mutations):
            message = rng.choice(pool)
            value = bytearray(message.value or b"")
            value[rng.randrange(len(value))] ^= 1 << rng.randrange(8)
            answer = _ask(golden, replace(message, value=bytes(value)))
            assert "error" in answer or answer["events"]
            json.dumps(answer)
            render(answer)


# ---- the command
def _file(tmp_path: Path, golden: Golden) -> Path:
    path = tmp_path / "messages.jsonl"
    path.write_text(golden.messages_file.read_text())
    return path


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = Golden("avro", "pk_int.ext1")
    path = _file(tmp_path, golden)
    given = ["--schemas", str(golden.meta_file), "--ddl", str(golden.meta_file)]
    assert main(["explain", f"{path}#2", *given]) == 0
    text = capsys.readouterr().out
    assert "avro (schema id 2 has tidb_type in its fields)" in text
    assert "after.v" in text
    assert main(["explain", "--in", f"{path}#2", "--format", "avro", "--format-out", "json", *given]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["format"] == "avro"
    assert answer["events"][0]["fields"][0]["value"] == "2"
    assert main(["explain", str(path), "--format-out", "json"]) == 1  # no schemas: why it can't be read
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "UNKNOWN_SCHEMA_ID"


@each("args", [[], ["x#0"], ["x", "--in", "x"], ["nope.jsonl"], ["kafka:topic"]])
def test_wrong_usage(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *args]) == 2
    assert "USAGE" in capsys.readouterr().err


def test_which_message(tmp_path: Path) -> None:
    golden = Golden("avro", "pk_int.ext1")
    path, kafka = _file(tmp_path, golden), KafkaClient()
    assert find(str(path), kafka)[0] == golden.messages()[0]
    message, earlier = find(f"{path}#3", kafka)
    assert (message, earlier) == (golden.messages()[2], golden.messages()[:2])
    odd = tmp_path / "a#1"
    odd.write_text(golden.messages_file.read_text())
    assert find(str(odd), kafka)[0] == golden.messages()[0]
    with pytest.raises(SetupError, match="message 999 is not there"):
        find(f"{path}#999", kafka)
    with pytest.raises(SetupError, match="counted from 1"):
        find(f"{path}#0", kafka)
    (tmp_path / "bad.jsonl").write_text("x\n")
    with pytest.raises(SetupError, match="not a line of a message file"):
        find(str(tmp_path / "bad.jsonl"), kafka)
    with pytest.raises(SetupError, match="bootstrap-servers"):
        find("shop_orders@0:12", KafkaClient())


# ---- Where values stand in JSON documents and in Open Protocol's frames.


class _NoTracer:
    def decode(self, message: Message) -> list[object]:
        raise NotImplementedError


def _open(*values: bytes) -> Message:
    key = (1).to_bytes(8, "big") + b"".join((2).to_bytes(8, "big") + b"{}" for _ in values)
    return Message(key, b"".join(len(v).to_bytes(8, "big") + v for v in values))


def test_open_protocol() -> None:
    """Each value of each row of a batch, with its type code; offsets are of the whole message."""
    first = '{"u":{"id":{"t":3,"h":true,"f":3,"v":1},"名":{"t":15,"f":0,"v":"é\\n"}},"p":{"id":{"t":3,"f":3,"v":null}}}'
    message = _open(first.encode(), b'{"d":{"b":{"t":16,"f":0,"v":5},"broken":{"t":3}}}', b"")
    found = traces("open", _NoTracer(), message, [])  # type: ignore[arg-type]
    assert [(f.row, f.image, f.name, f.raw.decode(), f.wire) for f in found] == [
        (0, "after", "id", "1", "JSON number, type code 3"),
        (0, "after", "名", '"é\\n"', "JSON string, type code 15"),
        (0, "before", "id", "null", "JSON null, type code 3"),
        (1, "before", "b", "5", "JSON number, type code 16"),
    ]
    assert message.value is not None
    assert all(message.value[f.offset : f.offset + len(f.raw)] == f.raw for f in found)


@each("value", [b"\x00", b"\xff" * 20, (4).to_bytes(8, "big") + b"\x28\xb5\x2f\xfd", b"x" * 9])
def test_open_protocol_that_is_not_plain_json_has_no_trace(value: bytes) -> None:
    assert traces("open", _NoTracer(), Message(b"", value), []) == []  # type: ignore[arg-type]
    assert traces("craft", _NoTracer(), Message(None, value), []) == []  # type: ignore[arg-type]


def test_members_and_paths() -> None:
    text = ' { "a" : [ 1 , {"b":"x"} ] , "c":{} , "d":-1.5e3 } '
    assert [(k, text[s:e]) for k, s, e in json_exact.members(text, 0)] == [
        ("a", '[ 1 , {"b":"x"} ]'),
        ("c", "{}"),
        ("d", "-1.5e3"),
    ]
    at = json_exact.find(text, ("a", 1, "b"))
    assert at is not None
    assert text[at : at + 3] == '"x"'
    assert json_exact.kind_of(text, at) == "string"
    assert json_exact.find(text, ("a", 2)) is None
    assert json_exact.find(text, ("c", "x")) is None
    assert list(json_exact.members("[]", 0)) == list(json_exact.members("1", 0)) == []


@each("text", ['{"a":1', "[1,", '{"a"', "{a:1}", '{"a":1}}'[:-2]])
def test_documents_that_are_cut(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        list(json_exact.members(text, 0))


def test_flattened_rows() -> None:
    """The columns are the document's own members, with a schema around them or without."""
    row = '{"id":1,"name":"a","__op":"c","__db":"shop","__table":"t"}'
    fields = ",".join(f'{{"type":"string","field":"{name}"}}' for name in ("name", "__op", "__db", "__table"))
    schema = f'{{"type":"struct","fields":[{{"type":"int32","optional":false,"field":"id"}},{fields}]}}'
    schema = schema.replace('"type":"string"', '"type":"string","optional":true')
    decoder = format_named("debezium-mysql").decoder(Context(FileSchemas([])))
    for value in (row, f'{{"schema":{schema},"payload":{row}}}'):
        message = Message(b'{"id":1}', value.encode())
        positions = {
            (f.image, f.name): f.raw for f in traces("debezium-mysql", decoder, message, decoder.decode(message))
        }
        assert positions["after", "id"] == b"1"
        assert positions["after", "name"] == b'"a"'
        assert positions["key", "id"] == b"1"
