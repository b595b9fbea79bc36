"""explain: what it says of a message is what the message holds, byte by byte."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.each import each
from tests.support.fuzz import amounts
from tests.support.golden import READ, Golden, cases
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.formats.format_table import FORMATS
from ticdc_bridge.schemas.inspect.explain import ExplainRequest, explain
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.io.locations import KafkaClient
from ticdc_bridge.spark_jobs.jobs.explain import find, render

WIDE = [next(g for g in cases(n) if g.name.startswith("wide.")) for n in READ]
TRACED = ("avro", "debezium", "open", "simple", "canal-json")


def _ask(golden: Golden, message: Message, ddl: bool = True, **more: Any) -> dict[str, Any]:
    side = golden.side(ddl)
    options = Options.of({"enable_tidb_extension": True}, time_zone=golden.zone)
    return explain(
        ExplainRequest(
            message, golden.format, side.context(), options, side.schemas.versions_of_id, golden.messages(), **more
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
            for part, data in (("key", message.key), ("value", message.value)):
                end = 0
                for field in sorted((f for f in fields if f["part"] == part), key=lambda f: f["offset"]):
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
    told = [_ask(golden, m)["events"][0]["elsewhere"]["debezium"] for m in golden.messages()]
    refused = [t for t in told if "error" in t]
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
    side = golden.side()
    answer = explain(ExplainRequest(message, "auto", side.context(), Options()))
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
