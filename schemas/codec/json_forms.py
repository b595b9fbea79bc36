"""What a JSON object is that a format does not read: its fields say it.

Sources: TiCDC's Simple and Canal-JSON (upstream ticdc `pkg/sink/codec`), Maxwell's documentation ("Data Format"), AWS
DMS ("Using Apache Kafka as a target"), Oracle GoldenGate's JSON formatter, Debezium's envelope.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class JsonForm:
    """A kind of object. fields: the sets of names of which it has one; holds: what must be true of it besides.

    format: what reads it, "" where nothing does. payload: it may stand in `payload`, as Kafka Connect wraps it.
    """

    title: str
    fields: tuple[frozenset[str], ...]
    format: str = ""
    payload: bool = False
    holds: Callable[[Mapping[str, Any]], bool] = lambda _body: True

    def matches(self, body: Mapping[str, Any]) -> bool:
        inner = body.get("payload") if self.payload else None
        one = inner if isinstance(inner, Mapping) else body
        return any(names <= one.keys() for names in self.fields) and self.holds(one)


def _fields(*names: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(one.split()) for one in names)


def _is_dms(body: Mapping[str, Any]) -> bool:
    return isinstance(body["metadata"], Mapping) and "record-type" in body["metadata"]


JSON_FORMS: tuple[JsonForm, ...] = (
    JsonForm("TiCDC's Simple Protocol", _fields("version type commitTs buildTs"), "simple"),
    JsonForm("Canal-JSON", _fields("isDdl type", "mysqlType type database"), "canal-json"),
    JsonForm(
        "Maxwell's JSON",
        _fields("database table type ts data", "database type sql ts def", "database type sql ts old"),
    ),
    JsonForm("JSON of AWS DMS", _fields("metadata data", "metadata control"), holds=_is_dms),
    JsonForm("JSON of Oracle GoldenGate", _fields("table op_type op_ts")),
    JsonForm(
        "an envelope of Debezium", _fields("op source ts_ms", "op source after"),
        "debezium, debezium-mysql or debezium-tidb, by its source.connector", payload=True,
    ),
)  # fmt: skip
"""The more fields a form has, the earlier it stands."""


def json_form(body: Any) -> JsonForm | None:
    """The kind of an object; None for any other value, and for an object that nothing tells."""
    if not isinstance(body, Mapping):
        return None
    return next((form for form in JSON_FORMS if form.matches(body)), None)


def name_other_form(body: Any, own: str) -> str:
    """What a body is that is not of the format `own`, and what reads it; "" where nothing tells."""
    form = json_form(body)
    if form is None or form.format.startswith(own):
        return ""
    return f"it is {form.title}" + (f": read it with --format {form.format}" if form.format else ", which is not read")
