"""Format A → event → format B → event is the identity for every pair and every golden case, but for what
`schemas/inspect/losses.py` names: there its flag or its error appears.

Some tables by default, more in the slow tests; BRIDGE_MATRIX=all runs all cases through all forms.
"""

import os
from collections import Counter
from dataclasses import replace

import pytest

from tests.matrix.round_trip import FORMS, MORE_FORMS, Given, Passage, Tally, read_all, source_others, source_rows
from tests.schemas.formats.debezium.test_mysql_connector_decoder import DEFAULTS, MODES, VERSIONS
from tests.support import connector
from tests.support.connector import ByName
from tests.support.each import each
from tests.support.golden import CONNECTORS, READ, Golden, Registry, cases
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.action_types import ddl_type_of
from ticdc_bridge.schemas.ddl.parser.lexer import LexicalMode
from ticdc_bridge.schemas.formats.format_table import WRITTEN
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.model.event import Bootstrap, DdlEvent, Message, RowChange, Watermark, ms_to_tso
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import TableVersion
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, transcode_message

WHOLE = os.environ.get("BRIDGE_MATRIX") == "all"
SOME = ("wide.", "pk_types.", "charset.", "names.", "generated.")
MORE = (
    "defaults.", "names_ascii.", "names_collision.", "evolution.", "no_key.", "partition.", "uk_notnull.", "pk_int.",
    "large.handlekeyonly",
)  # fmt: skip
PARTS = pytest.mark.parametrize("more", [False] if WHOLE else [False, pytest.param(True, marks=pytest.mark.slow)])
# A message carries nothing else where these differ: one of them is enough.
REPEATED = (".batch1", ".lz4", ".snappy", ".build_at_end", ".build_at_end.batch64", ".startts.noold", ".noschema")


def chosen(format_: str, more: bool) -> list[Golden]:
    found = cases(format_)
    if WHOLE:
        return found
    found = [g for g in found if not (g.name.endswith(REPEATED) and "ext" not in g.name)]
    some = [g for g in found if g.name.startswith(SOME) and ".dec_" not in g.name]
    return [g for g in found if g.name.startswith((*SOME, *MORE)) and g not in some] if more else some


EXTENDED = {"enable_tidb_extension": True, "avro_enable_watermark": True}
# Formats that have no TiDB ActionType, and those that can't do without (docs/reference.md).
WITHOUT_TYPE, NEED_TYPE = ("debezium", "debezium-avro", "debezium-tidb"), ("avro", "craft", "open", "open-tiflow")


@each("to", WRITTEN)
@PARTS
@pytest.mark.parametrize("source", READ)
def test_statements_and_watermarks_come_back(source: str, to: str, more: bool) -> None:
    same = Counter[str]()
    for golden in chosen(source, more):
        registry = Registry()
        options = Options.of({**EXTENDED, "time_zone": golden.zone})
        writer = CodecConfig(to, registry, options, golden.definitions).encoder()  # type: ignore[arg-type]
        reader = CodecConfig(to, registry, options, golden.definitions).decoder()  # type: ignore[arg-type]
        for event, origin in source_others(golden):
            result = transcode_message(Given(event), writer, replace(origin, topic="t"))
            reported = None if isinstance(event, Watermark) else ddl_type_of(event)
            ms = getattr(event, "extra", {}).get("es") or origin.timestamp or 0
            commit_ts = ms_to_tso(ms) if event.commit_ts is None else event.commit_ts
            typed = isinstance(event, Watermark) or (reported is not None and bool(commit_ts))
            assert result.error is None, result.error
            if result.skipped:
                no_form = to in CONNECTORS and (to == "debezium-mysql" or isinstance(event, Watermark))
                assert isinstance(event, Bootstrap) or no_form or (to in NEED_TYPE and not typed)
            else:
                [seen] = [e for message in result.out for e in reader.decode(message)]
                same[type(event).__name__] += 1
                assert type(seen) is type(event)
                assert (seen.commit_ts or 0) == commit_ts
                if isinstance(event, DdlEvent) and isinstance(seen, DdlEvent):
                    assert (seen.db, seen.table, seen.query) == (event.db, event.table, event.query)
                    assert seen.ddl_type == (None if to in WITHOUT_TYPE else reported)
    none_written = to == "debezium-mysql" or source == "avro"
    assert same or none_written, f"no DDL statement and no watermark of {source}'s cases came back from {to}"


@each("form", [*FORMS, *MORE_FORMS] if WHOLE else [*FORMS])
@pytest.mark.parametrize("defined", [True, False], ids=["ddl", "messages"])
@PARTS
@pytest.mark.parametrize("source", READ)
def test_every_row_comes_back_or_its_loss_is_reported(source: str, defined: bool, form: str, more: bool) -> None:
    tally, wrong = Tally(), list[str]()
    for golden in chosen(source, more):
        passage = Passage(form, golden.zone, golden.definitions if defined else None)
        for event, origin in source_rows(golden, defined):
            passage.check(event, origin, tally)
        wrong += [f"{golden}: {text}" for text in tally.unexplained]
        tally.unexplained.clear()
    assert not wrong, f"{len(wrong)} of {source} → {form}:\n" + "\n".join(wrong[:20])
    assert tally.same or tally.used or tally.refused


def ddl_text(golden: Golden) -> TableDefinitions:
    """A case's tables from the text of its statements, as `--ddl FILE` reads them."""
    steps = [step for step in golden.meta["steps"] if step["kind"] == "ddl"]
    texts = [
        DdlText(step["commit_ts"], step.get("schema", ""), step["sql"], LexicalMode.of_sql_mode("")) for step in steps
    ]
    return TableDefinitions(versions(texts, str(golden.meta.get("session_tz") or golden.zone)))


@PARTS
@pytest.mark.parametrize("source", ["avro", "debezium", "debezium-avro", "open", "simple", "canal-json"])
def test_tables_from_ddl_text_do_as_well(source: str, more: bool) -> None:
    """The same rows as with the tables that TiDB itself listed, and the same ways through the other formats."""
    tally = Tally()
    for golden in chosen(source, more):
        tables = ddl_text(golden)
        image = replace(golden.side(), tables=tables)
        rows = [(e, origin) for e, origin in read_all(golden, image.decoder()) if isinstance(e, RowChange)]
        wanted = source_rows(golden, True)
        assert [_read(event) for event, _ in rows] == [_read(event) for event, _ in wanted]
        for form in FORMS if WHOLE or golden.name.startswith(("wide.", "defaults.", "pk_types.")) else ():
            way = Passage(form, golden.zone, tables)
            for event, origin in rows:
                way.check(event, origin, tally)
    assert not tally.unexplained
    assert tally.same


def _read(event: RowChange) -> tuple[object, ...]:
    return event.op, event.commit_ts, event.table.id, event.key, event.before, event.after, event.flags


SETTINGS = [
    n if n == "default" else pytest.param(n, marks=pytest.mark.slow)
    for n in connector.settings()
    if WHOLE or n in ("default", "bigint_precise", "edge", "decimal_double")
]


def connector_rows(setting: str, defined: bool) -> list[tuple[RowChange, Message]]:
    """The rows of a setting of Debezium's connector, each read with the table it was written from, or without."""
    stepwise = defined and not setting.startswith(("edge", "ticdc_foo", "unwrap"))
    tables, out = ByName({}), list[tuple[RowChange, Message]]()
    options = {**DEFAULTS, **MODES.get(setting, {})}
    decoder = connector.side(tables=tables if stepwise else None, **options).decoder()
    for message in connector.json_messages(setting):
        if stepwise and len(out) < len(VERSIONS):
            tables.versions = {VERSIONS[len(out)].table.id: VERSIONS[len(out)]}
        events = decode_message(decoder, message).events
        out += [(event, message) for event in events if isinstance(event, RowChange)]
    return out


@each("form", [*FORMS, *MORE_FORMS] if WHOLE else [*FORMS])
@pytest.mark.parametrize("defined", [True, False], ids=["ddl", "messages"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_row_of_the_connector_comes_back_or_its_loss_is_reported(setting: str, defined: bool, form: str) -> None:
    tally, passages, last = Tally(), dict[int, Passage](), Passage(form, "UTC", None)
    for event, origin in connector_rows(setting, defined):
        if event.table_version is not None and id(event.table) not in passages:
            only = TableDefinitions([TableVersion(1, event.table)])
            passages[id(event.table)] = Passage(form, "UTC", only)
        passages.get(id(event.table), last).check(event, replace(origin, timestamp=1_800_000_000_000), tally)
    assert not tally.unexplained
    assert tally.same or tally.used or tally.refused
