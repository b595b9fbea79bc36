"""The golden cases of tests/golden: messages of TiCDC's own encoders, and the rows they were made from."""

import json
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ticdc_bridge.schemas.formats import format_table
from ticdc_bridge.schemas.inputs.claim_check_folder import ClaimFolder
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Event, Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import SchemaId
from ticdc_bridge.spark_jobs.io.message_files import read_messages
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, plain_lines

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
CONNECTOR = "debezium-mysql"  # its messages are Debezium's own: tests/support/connector.py
CONNECTORS = (CONNECTOR, "debezium-tidb")  # the second's are made of TiCDC's: tests/support/tidb_connector.py
FORMATS = tuple(name for name in format_table.WRITTEN if name not in CONNECTORS)
READ = (*FORMATS, *(name for name, row in format_table.FORMATS.items() if not row.writes))
"""The formats that golden cases are in."""
ALL = (*READ, *CONNECTORS)
# A case of each: one with all types, and one of several tables and schema versions.
WIDE = {
    "avro": "wide.ext1", "craft": "wide.default", "debezium": "wide.ext.schema", "debezium-avro": "wide.str.ext",
    "open": "wide.default", "open-tiflow": "wide.default", "simple": "wide.json", "canal-json": "wide.compat",
}  # fmt: skip
EVOLUTION = {
    "avro": "evolution.ext1", "craft": "evolution.default", "debezium": "evolution.ext.schema",
    "debezium-avro": "evolution.str.ext", "open": "evolution.default", "open-tiflow": "evolution.default",
    "simple": "evolution.json", "canal-json": "evolution.ext",
}  # fmt: skip

# The tools import each other by bare name; this is the one place that puts their folder on the path.
_TOOLS = str(ROOT / "tests" / "tools")
if _TOOLS not in sys.path:
    sys.path.append(_TOOLS)


@dataclass(frozen=True)
class Golden:
    """One case of one format."""

    format: str
    name: str

    def __str__(self) -> str:
        return f"{self.format}/{self.name}"

    @property
    def messages_file(self) -> Path:
        return GOLDEN / self.format / f"{self.name}.jsonl"

    @property
    def meta_file(self) -> Path:
        return GOLDEN / self.format / f"{self.name}.meta.json"

    @property
    def meta(self) -> dict[str, Any]:
        return _meta(self.meta_file)

    @property
    def zone(self) -> str:
        return str(self.meta.get("changefeed_tz") or self.meta["tz"])  # `tz` in metas of classic TiCDC

    @property
    def schemas(self) -> FileSchemas:
        return _schemas(self.meta_file)

    @property
    def definitions(self) -> TableDefinitions:
        """Of the meta; metas of classic TiCDC have none, those of the same SQL in Open Protocol do."""
        same_sql = GOLDEN / "open" / f"{self.name.partition('.')[0]}.default.meta.json"
        return _definitions(same_sql if "tz" in self.meta and same_sql.exists() else self.meta_file)

    @property
    def claims(self) -> ClaimFolder | None:
        folder = self.messages_file.with_suffix(".files")
        return ClaimFolder.of(folder) if folder.is_dir() else None

    def options(self, **more: Any) -> Options:
        """The options that the case was encoded with, as far as the bridge knows them."""
        known = {f.name for f in fields(Options)}
        given = {k: v for k, v in self.meta["options"].items() if k in known}
        return Options.of({**given, "time_zone": self.zone, **more})

    def side(self, ddl: bool = False) -> CodecConfig:
        """The reading side: schemas and zone of the meta, with or without its table definitions."""
        tables = self.definitions if ddl else None
        return CodecConfig(self.format, self.schemas, Options.of({}, time_zone=self.zone), tables, self.claims)

    def messages(self) -> list[Message]:
        return list(_messages(self.messages_file))

    def events(self, ddl: bool = False) -> list[Event]:
        """The events of all messages; messages that can't be read (a record without key and value) are left out."""
        decoder = self.side(ddl).decoder()
        return [event for message in self.messages() for event in decode_message(decoder, message).events]

    def plain(self, ddl: bool = False) -> list[dict[str, Any]]:
        """The plain form of all messages, as JSON gives it back."""
        decoder = self.side(ddl).decoder()
        lines = [line for m in self.messages() for line in plain_lines(decode_message(decoder, m), m)]
        return [dict(json.loads(json.dumps(line))) for line in lines]


@cache
def _meta(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


@cache
def _schemas(path: Path) -> FileSchemas:
    return FileSchemas.read(path)


@cache
def _definitions(path: Path) -> TableDefinitions:
    return TableDefinitions.read(path)


@cache
def _messages(path: Path) -> tuple[Message, ...]:
    found = tuple(read_messages(path))
    assert all(isinstance(m, Message) for m in found), f"{path} has a line that is no message"
    return tuple(m for m in found if isinstance(m, Message))


def cases(format_: str) -> list[Golden]:
    """All cases of a format, in order of their names."""
    names = sorted(p.name.removesuffix(".meta.json") for p in (GOLDEN / format_).glob("*.meta.json"))
    return [Golden(format_, name) for name in names]


def sample(found: Iterable[Golden]) -> list[Golden]:
    """One case of each form of a format (what follows the first dot of a name): the widest table's, else the first."""
    chosen: dict[tuple[str, str], Golden] = {}
    for golden in found:
        table, _, form = golden.name.partition(".")
        if (golden.format, form) not in chosen or table == "wide":
            chosen[golden.format, form] = golden
    return list(chosen.values())


def sampled(found: Iterable[Golden]) -> dict[str, Any]:
    """Arguments of tests.support.each: the sample by default, the other cases in the slow test."""
    listed = list(found)
    chosen = sample(listed)
    return {"rows": chosen, "slow": [golden for golden in listed if golden not in chosen]}


def both(found: Iterable[Golden]) -> dict[str, Any]:
    """As sampled, for (golden, ddl): all cases without definitions, the sample with; the other cases with are slow."""
    listed = list(found)
    pieces = sampled(listed)
    rows = [(g, False) for g in listed] + [(g, True) for g in pieces["rows"]]
    return {"rows": rows, "slow": [(g, True) for g in pieces["slow"]]}


def case_check(golden: Golden) -> Any:
    """golden_check's Case: `.check(lines)` gives a Score with `.differences`."""
    check = import_module("golden_check")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the tool leaves closing the messages to the collector
        return check.Case(golden.messages_file, golden.meta_file, "wire")


def case_module() -> Any:
    """golden_case: how the tool compares and shifts values."""
    return import_module("golden_case")


class Registry:
    """A schema registry in memory (schemas.model.ports.SchemaSource) that gives out ids."""

    def __init__(self) -> None:
        self.subjects: dict[str, list[str]] = {}
        self._texts: list[str] = []

    def by_id(self, schema_id: SchemaId, where: str, subject: str | None = None) -> str:
        if not isinstance(schema_id, int) or not 0 < schema_id <= len(self._texts):
            raise WireError("UNKNOWN_SCHEMA_ID", where=where, id=schema_id, source="the test's registry")
        return self._texts[schema_id - 1]

    def newest(self, subject: str) -> str | None:
        return self.subjects[subject][-1] if subject in self.subjects else None

    def id_of(self, subject: str, schema: str) -> SchemaId:
        if schema not in self._texts:
            self._texts.append(schema)
        versions = self.subjects.setdefault(subject, [])
        if schema not in versions:
            versions.append(schema)
        return self._texts.index(schema) + 1


def pairs(text: bytes | None) -> Any:
    """A JSON message with its key order, numbers as they are written; bytes that are not UTF-8 survive."""
    if text is None:
        return None
    return json.loads(
        text.decode("utf-8", "surrogateescape"), object_pairs_hook=list, parse_float=_Number, parse_int=_Number
    )


class _Number(str):
    """The text of a number, so that 1 and 1.0 are told apart."""

    __slots__ = ()
