"""Names, time, errors and the table of types: the words that both halves share."""

import json
import pickle
import string
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.each import each
from tests.support.golden import cases
from ticdc_bridge.schemas.model import event, names
from ticdc_bridge.schemas.model.errors import ERRORS, BridgeError, LossyError, SetupError, WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.types import BY_AVRO_NAME, BY_CODE, BY_CONNECT, BY_NAME, BY_SEMANTIC, TYPES, Kind
from ticdc_bridge.schemas.plain.writer import json_line, plain_error
from ticdc_bridge.service.errors import REGISTRY_ERRORS, SHARED_ANSWERS, RegistryError

ALLOWED = set(string.ascii_letters + string.digits + "_")


# ---- names
@each(
    ("name", "made"),
    [
        ("a", "a"), ("", ""), ("1col", "_1col"), ("-a", "_a"), ("中x", "_x"), ("a.b", "a_b"), ("名称", "__"),
        ("_1", "_1"), ("Aa0_", "Aa0_"), ("👍", "_"), ("٣", "_"),
    ],
)  # fmt: skip
def test_avro_names(name: str, made: str) -> None:
    assert names.sanitise_name(name) == made


@given(st.text())
def test_avro_names_are_legal_and_stay(name: str) -> None:
    made = names.sanitise_name(name)
    assert set(made) <= ALLOWED
    assert not made[:1].isdigit()
    assert names.sanitise_name(made) == made
    assert bool(made) == bool(name)
    topic = names.sanitise_topic_label(name)
    assert len(topic) == len(name)
    assert set(topic) <= ALLOWED | {"."}


@each("golden", [g for g in cases("avro") if g.name.startswith("names")], ids=str)
def test_names_are_those_of_ticdc(golden: object) -> None:
    for registered in golden.meta["registered_schemas"]:  # type: ignore[attr-defined]
        schema = json.loads(registered["schema"])
        known = {names.sanitise_name(s["table"]) for s in golden.meta["steps"]}  # type: ignore[attr-defined]
        assert schema["name"] in known


def test_subjects() -> None:
    assert names.avro_subject("tidb.a.b", "value") == "tidb_a_b-value"


# ---- time
@given(st.integers(0, (1 << 45) - 1), st.integers(0, (1 << 18) - 1))
def test_tso(milliseconds: int, logical: int) -> None:
    first = event.ms_to_tso(milliseconds)
    assert event.tso_physical_ms(first + logical) == milliseconds
    assert event.tso_physical_ms(first - 1) == milliseconds - 1


def test_a_tso_of_ticdc() -> None:
    moment = datetime.fromtimestamp(event.tso_physical_ms(463299738777157634) / 1000, UTC)
    assert moment.isoformat() == "2026-01-02T10:04:06.678000+00:00"


# ---- errors
def _fields(code: str, kind: type[BridgeError]) -> dict[str, str]:
    return {name: f"<{name}>" for _, name, _, _ in string.Formatter().parse(kind.templates[code]) if name}


_KINDS = (WireError, LossyError, SetupError, BridgeError)


@each("code", [*ERRORS, *REGISTRY_ERRORS])
def test_error_crosses_processes(code: str) -> None:
    for kind in (RegistryError,) if code in REGISTRY_ERRORS else _KINDS:
        fields = _fields(code, kind)
        error = kind(code, **fields)
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind
        assert (again.code, again.fields, again.detail, str(again)) == (code, fields, error.detail, error.detail)
        assert all(value in error.detail for value in fields.values())


def test_codes_and_their_answers_over_http() -> None:
    assert all(code == code.upper() for code in (*ERRORS, *REGISTRY_ERRORS))
    assert SHARED_ANSWERS.keys() <= ERRORS.keys()
    answers = [*SHARED_ANSWERS.values(), *((row.http, row.error_code) for row in REGISTRY_ERRORS.values())]
    assert all(400 <= http < 600 for http, _ in answers)
    assert all(code == 0 or str(code).startswith(str(http)) for http, code in answers)


def test_error_with_a_missing_field_is_a_programming_error() -> None:
    with pytest.raises(KeyError):
        WireError("TRUNCATED", where="value")
    with pytest.raises(KeyError):
        WireError("NO_SUCH_CODE")


@given(st.text(st.characters(), max_size=50))
def test_error_lines_are_utf8_whatever_the_text(text: str) -> None:
    line = json_line(plain_error(WireError("MALFORMED", where="value", details=text), Message(b"\xff", None)))
    shown = text.encode("utf-8", "backslashreplace").decode()  # what is printed, and Arrow's strings, must be UTF-8
    assert json.loads(line.encode())["detail"] == f"value: {shown}"
    assert "\n" not in line


# ---- types
def test_types_are_named_once() -> None:
    assert len(BY_NAME) == len(TYPES) == len({(t.code, t.kind) for t in TYPES})


def test_every_code_has_a_type_binary_or_not() -> None:
    for row in TYPES:
        for binary in (False, True):
            found = BY_CODE[row.code, binary]
            assert found.code == row.code
            if len({other.kind for other in TYPES if other.code == row.code}) > 1:
                assert (found.kind is Kind.BINARY) == binary
            else:
                assert found is row


def test_every_avro_name_stands_for_its_widest_type() -> None:
    assert set(BY_AVRO_NAME) == {row.avro_name for row in TYPES}
    for name, widest in BY_AVRO_NAME.items():
        assert widest.avro_name == name
        assert widest.bits == max(row.bits for row in TYPES if row.avro_name == name)


def test_every_debezium_type_is_read() -> None:
    for row in TYPES:
        if row.semantic:
            assert BY_SEMANTIC[row.semantic] is row
        elif row.kind is not Kind.DATETIME:
            for connect in filter(None, (row.connect, row.connect_unsigned)):
                assert connect == "bytes" or connect in BY_CONNECT, row.name


def test_every_type_and_avro_name_is_in_the_goldens() -> None:
    """The goldens hold each type, so that a new row without a sample is noticed."""
    codes = {
        (c["mysql_type"], c["charset"] == "binary" and BY_CODE[c["mysql_type"], True].kind is Kind.BINARY)
        for g in cases("avro")
        for s in g.meta["steps"]
        for c in s.get("columns") or []
        if c["mysql_type"]
    }
    seen = {BY_CODE[code] for code in codes}
    lacking = {row.name for row in TYPES} - {row.name for row in seen}
    assert lacking == set(), "no case of tests/golden/avro has a column of it (steps, columns in its meta.json)"
