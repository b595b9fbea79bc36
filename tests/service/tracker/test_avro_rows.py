"""Rows of Avro beside the history, with TiCDC's test switch for watermarks: their names are those that Avro takes."""

import base64
import json
from contextlib import closing
from pathlib import Path

from tests.support.each import each
from tests.support.golden import Golden
from ticdc_bridge.service.history.model import Drift
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.store.history_store import HistoryStore
from ticdc_bridge.service.tracker.config import TrackedChangefeed
from ticdc_bridge.service.tracker.sources import FileSource
from ticdc_bridge.service.tracker.tracker import Tracker


def tracked(path: Path, golden: Golden, leave_out: str = "") -> tuple[list[Drift], int]:
    """The drift, and how many rows fitted, of a golden case with its DDL before it and a watermark after it.
    leave_out: of the DDL."""
    steps = [step for step in golden.meta["steps"] if step["kind"] == "ddl"]
    lines = [
        json.dumps({"commit_ts": int(s["commit_ts"]), "db": s["schema"], "query": s["sql"].replace(leave_out, "")})
        for s in steps
    ]
    end = max(int(step.get("commit_ts") or 0) for step in golden.meta["steps"])
    watermark = base64.b64encode(b"\x02" + end.to_bytes(8, "big")).decode()
    messages = golden.messages_file.read_text(encoding="utf-8").splitlines()
    file = path / f"{golden.format}.{golden.name}.jsonl"
    file.write_text("\n".join((*lines, *messages, json.dumps({"key_b64": None, "value_b64": watermark}))))
    with closing(open_store(f"sqlite:///{path / (file.name + leave_out + '.db')}")) as store:
        history = HistoryStore(store)
        Tracker(TrackedChangefeed("c"), FileSource(file), history, golden.schemas, at_end=True).run()
        fitting = [history.count_fitting("c", *row.id) for row in history.tables("c")]
        return history.drift("c"), sum(count for entry in fitting for count in entry.values())


# (format, case, rows that fit)
@each(("format_", "name", "fitting"), (
    ("avro", "names.ext1", 2), ("avro", "names_ascii.ext1", 1), ("avro", "evolution.ext1", 10),
    ("avro", "generated.ext1", 2), ("debezium-avro", "names.str.ext", 3), ("debezium-avro", "evolution.str.ext", 11),
))  # fmt: skip
def test_rows_are_found_by_the_names_that_avro_takes(tmp_path: Path, format_: str, name: str, fitting: int) -> None:
    assert tracked(tmp_path, Golden(format_, name)) == ([], fitting)


def test_a_column_that_rows_have_and_the_table_lacks_is_drift(tmp_path: Path) -> None:
    (drift,), fitting = tracked(tmp_path, Golden("avro", "names.ext1"), " `a.b` int,")
    assert (drift.kind, drift.db, drift.table, fitting) == ("columns", "my-db.测试", "1st-订单.t", 0)
    assert drift.detail == "rows with a_b"
