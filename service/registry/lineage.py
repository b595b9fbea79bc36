"""Which jobs read which topics, by which table versions and subjects, and wrote what: as the jobs tell it."""

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from ticdc_bridge.schemas.inputs.kafka_settings import TOPIC
from ticdc_bridge.schemas.model.reasons import shown
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry.model import Lineage
from ticdc_bridge.service.registry.names import DEFAULT_CONTEXT
from ticdc_bridge.service.registry.registry import Registry

MOST_TABLES: Final = 10_000
_LONGEST: Final = 1_000
RUN_FIELDS: Final = ("job", "command", "from", "to", "source", "target")
TABLE_FIELDS: Final = (
    ("topic", str, False), ("db", str, True), ("table", str, True), ("table_version", int, False),
    ("schema_id", int, False), ("rows", int, True), ("newest_commit_ts", int, False), ("waiting", int, False),
    ("positions", dict, False), ("reconciled", int, False), ("different", int, False), ("set_aside", str, False),
)  # fmt: skip
"""positions: partition → the offset that is read next, of an edge without a table. reconciled: the TSO at which the
rows were compared with TiDB's, and different: how many of them are missing, extra or different. set_aside: why; of an
edge without a table the names of all that are."""
NEWEST_RUN: Final = (
    ("failed", int, False), ("dead_letter", str, False), ("errors", dict, False), ("stopped", str, False),
)  # fmt: skip
"""Of the newest run: how many messages failed, where they went, how many by code, and the error that ended it."""
_PROGRESS: Final = tuple(name for name, _, _ in (*TABLE_FIELDS[6:], *NEWEST_RUN))
"""How far a job is: it is reported anew each time, so it is not part of an edge's identity."""


def record(registry: Registry, run: dict[str, Any]) -> int:
    """Keeps what a run of a job tells, rows of known edges added up; how many edges. RegistryError BAD_REQUEST."""
    head = {name: _text(run, name) for name in RUN_FIELDS} | _fields(run, NEWEST_RUN, "")
    tables = run.get("tables")
    if not isinstance(tables, list) or len(tables) > MOST_TABLES:
        raise RegistryError("BAD_REQUEST", details=f"tables: a list of at most {MOST_TABLES} is needed")
    now, by_key = time.time_ns() // 1_000_000, dict[str, Lineage]()
    for table in tables:
        if not isinstance(table, dict):
            raise RegistryError("BAD_REQUEST", details="tables: objects are needed")
        edge = head | _fields(table, TABLE_FIELDS, "tables: ")
        rows = edge.pop("rows")
        known = {name: value for name, value in edge.items() if name not in _PROGRESS}
        key = hashlib.sha256(_text_of(known).encode("utf-8", "replace")).hexdigest()
        by_key[key] = Lineage(key, _text_of(edge), rows + (by_key[key].rows if key in by_key else 0), now, now)
    with registry.store.write() as tx:
        tx.add_lineage(by_key.values())
    return len(tables)


def edges_of(registry: Registry, **filters: str) -> list[dict[str, Any]]:
    """The edges, with the subjects of their schema ids. filters: job, topic, table ("db.table"), subject; "": any."""
    subject = filters.pop("subject", "")
    with registry.store.read() as tx:
        edges = []
        for entry in tx.lineage():
            edge = json.loads(entry.body)
            values = {"job": edge["job"], "topic": edge["topic"], "table": f"{edge['db']}.{edge['table']}"}
            if all(value in ("", values[name]) for name, value in filters.items()):
                edges.append(
                    {
                        **dict.fromkeys(_PROGRESS), **edge, "subjects": [], "rows": entry.rows, "first": entry.first,
                        "last": entry.last,
                    }
                )  # fmt: skip
        subjects = defaultdict[int, list[dict[str, Any]]](list)
        for row in tx.holders_of(DEFAULT_CONTEXT, {edge["schema_id"] for edge in edges} - {None}):
            subjects[row.id].append({"subject": row.subject, "version": row.version})
    for edge in edges:
        edge["subjects"] = subjects.get(edge["schema_id"], [])
    return [edge for edge in edges if not subject or subject in (item["subject"] for item in edge["subjects"])]


def dead_letter_topics(registry: Registry) -> set[str]:
    """The topics to which jobs wrote messages that failed, as they last reported."""
    with registry.store.read() as tx:
        positions = {json.loads(entry.body).get("dead_letter") or "" for entry in tx.lineage()}
    return {location.removeprefix(TOPIC) for location in positions if location.startswith(TOPIC)}


_KINDS: Final = {int: "a whole number", str: "a text", dict: "an object of whole numbers"}


def _fields(object_: dict[str, Any], wanted: Iterable[tuple[str, type[Any], bool]], where: str) -> dict[str, Any]:
    """The fields of an object, None for one that is left out. RegistryError BAD_REQUEST."""
    fields = {}
    for name, kind, needed in wanted:
        value = object_.get(name)
        if (value is None and needed) or (value is not None and type(value) is not kind):
            raise RegistryError("BAD_REQUEST", details=f"{where}{name} is {shown(value, 60)}: {_KINDS[kind]} is needed")
        if isinstance(value, str) and len(value) > _LONGEST:
            raise RegistryError("BAD_REQUEST", details=f"{where}{name} is longer than {_LONGEST} characters")
        numbers = value.values() if isinstance(value, dict) else [] if value is None or kind is str else [value]
        if not all(type(number) is int and 0 <= number < 1 << 63 for number in numbers):
            raise RegistryError("BAD_REQUEST", details=f"{where}{name} is out of range")
        fields[name] = value
    return fields


def _text_of(edge: dict[str, Any]) -> str:
    return json.dumps(edge, ensure_ascii=False, sort_keys=True)


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise RegistryError("BAD_REQUEST", details=f"{name}: a text of at most {_LONGEST} characters is needed")
    return value
