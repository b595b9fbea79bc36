"""The histories of a real TiDB, through the tracker, equal TiDB's own answers at every boundary."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.ddl_histories import FILES, answer
from tests.support.history_events import ddl, resolved, scripts, write
from ticdc_bridge.service.history.model import State
from ticdc_bridge.service.history.table_json import table_form
from ticdc_bridge.service.store import SqlStore
from ticdc_bridge.service.store.history_store import HistoryStore
from ticdc_bridge.service.tracker.config import TrackedChangefeed
from ticdc_bridge.service.tracker.tracker import tracker_of

PARTITIONS = 3
SHARE = {"own": 1, "ticdc": 4}  # every so many-th script; tests/schemas/ddl replays them all


def messages(lines: list[dict[str, Any]]) -> list[Any]:
    """As TiCDC sends them: every event to every partition, each followed by its watermark."""
    found, offsets = [], [0] * PARTITIONS
    for recorded in lines:
        for partition in range(PARTITIONS):
            events = [ddl(w["ts"], w["scm"], w["tbl"], w["q"], w["t"]) for w in recorded["wire"]]
            for entry in (*events, resolved(recorded["wire"][-1]["ts"])):
                found.append(replace(entry, topic="t", partition=partition, offset=offsets[partition]))
                offsets[partition] += 1
    return found


@pytest.mark.parametrize(
    "name", [name if name == "own" else pytest.param(name, marks=pytest.mark.slow) for name in FILES]
)
def test_versions_are_tidbs(store: SqlStore, tmp_path: Path, name: str) -> None:
    histories = HistoryStore(store)
    checked = 0
    for number, (script, lines) in enumerate(list(scripts(name).items())[:: SHARE[name]]):
        file = write(tmp_path / f"{number}.jsonl", messages(lines))
        tracker = tracker_of(TrackedChangefeed(script, (), file), histories, store, most=1000)
        tracker.run()
        progress = tracker.progress
        events = sum(len(entry["wire"]) for entry in lines)
        assert (progress.sealed, progress.pending, progress.failed, progress.drift) == (events, 0, 0, 0), script
        assert progress.copies == events * (PARTITIONS - 1)
        known: dict[tuple[str, str], Any] = {}
        for line in lines:
            checked += check(histories, script, line, known)
    assert checked > 50


def check(histories: HistoryStore, script: str, entry: dict[str, Any], known: dict[tuple[str, str], Any]) -> int:
    """known: what TiDB said of each table before."""
    first, last = entry["wire"][0]["ts"], entry["wire"][-1]["ts"]
    tables = [table for table in entry["tables_after"] if table["kind"] == "table"]
    for table in tables:
        name = (table["db"], table["table"])
        after = histories.version_at(script, *name, last + 1)
        assert after is not None
        assert after.table is not None
        assert table_form(after.table) == answer(table), entry["ddl"]
        assert histories.version_at(script, *name, last, inclusive=True) == after
        # A row at the DDL's own commit_ts has the version before it.
        before = histories.version_at(script, *name, first)
        assert before is None or before.from_ts < first
        if name in known:
            assert before is not None
            assert before.table is not None
            assert table_form(before.table) == known[name]
        known[name] = answer(table)
    for gone in entry["tables_gone"]:
        known.pop((gone["db"], gone["table"]), None)
        row = histories.version_at(script, gone["db"], gone["table"], last, inclusive=True)
        assert row is None or row.state is State.GONE
    return len(tables)
