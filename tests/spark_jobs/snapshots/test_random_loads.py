"""`load` at a random moment of a random history, before, between or after batches of `merge`, whose changefeed began at
or before the snapshot. Messages come again, loads and merges are killed; then the table is TiDB's.

BRIDGE_SOAK=N: N rounds; BRIDGE_SEED: of other histories; BRIDGE_ONLY: those whose "SEED/N FORMAT ENGINE" has this.
"""

from __future__ import annotations

import copy
import json
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark_jobs.lake.test_random_histories import (
    ENGINES,
    FORMATS,
    _difference,
    _Killed,
    _Kills,
    _location,
    _write_ddl,
    _write_schemas,
    kills,
    take_as_many,
)
from tests.spark_jobs.lake.test_random_pasts import log_difference, rows_of_any, versions_difference
from tests.support.dumps import write_dump
from tests.support.lake_histories import Delivery, History
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.ddl.executor.show_create import show_create
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["kills"]  # a fixture
ROUNDS = int(os.environ.get("BRIDGE_SOAK", "10"))
SEED = os.environ.get("BRIDGE_SEED", "1")
_BATCHES, _STEPS = 3, 80


def _round(number: int) -> tuple[str, str, str]:
    """(seed, format, engine): each pair of them in turn."""
    pairs = [(f, ENGINES[(n + turn) % len(ENGINES)]) for turn in range(len(ENGINES)) for n, f in enumerate(FORMATS)]
    return f"{SEED}/load/{number}", *pairs[number % len(pairs)]


class _Snapshots:
    """A history as it was after some of its steps. chance: of all that is random in a round."""

    def __init__(self, history: History, chance: random.Random) -> None:
        self.history, self.chance = history, chance

    def then(self, steps: int) -> History:
        h = self.history
        return History(h.seed, h.split, h.schema, h.swaps, h.keys, steps)

    def tso_of(self, then: History) -> int:
        """That of its last commit, or between that and the next one."""
        last = max([ts for ts, _ in then.statements] + [c.commit_ts for c in then.changes])
        return last + self.chance.choice([0, 1, 1 << 18])

    def dump(self, name: str, then: History, tso: int) -> str:
        rows = ({"id": id_, **row}.values() for id_, row in then.rows.items())
        return write_dump(Path(name), tso, _shown(then), rows)


def _shown(then: History) -> str:
    return show_create(versions([DdlText(ts, "d", text) for ts, text in then.statements])[-1].table)


def _run(words: list[str], kills: _Kills, after: int) -> int:
    """Killed at a change of a table, then again."""
    kills.left = after
    try:
        return main(words)
    except _Killed:
        kills.left = -1
        return main(words)
    finally:
        kills.left = -1


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
def test_the_table_is_tidbs_after_any_load(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kills: _Kills, number: int
) -> None:
    seed, format_, engine = _round(number)
    where = f"{seed} {format_} {engine}"
    if os.environ.get("BRIDGE_ONLY", "") not in where:
        pytest.skip("not this one")
    take_as_many(monkeypatch, seed)
    chance, is_avro, with_past = random.Random(f"{seed} load"), format_ == "avro", number % 2 == 1
    split = is_avro or chance.random() < 0.3
    history = History(seed, split, schema=chance.random() < 0.8, keys=20, steps=_STEPS)
    snapshots = _Snapshots(history, chance)
    steps = chance.randint(1, _STEPS)
    then = snapshots.then(steps)
    tso = snapshots.tso_of(then)
    # Avro's deletes have no commit_ts: the changefeed begins at the snapshot (docs/decisions/0048).
    began = then if is_avro else snapshots.then(chance.randint(0, steps))
    start_ts = tso if is_avro else min(snapshots.tso_of(began), tso)
    encoded, merge = _write_schemas(format_, history)
    tail = copy.copy(history)
    tail.changes = [c for c in history.changes if c.commit_ts > start_ts]
    encoded = encoded[len(history.changes) - len(tail.changes) :]
    knows_all = chance.random() < 0.5
    outputs = ["--engine", engine, "--out", _location(spark, engine)]
    if with_past:
        outputs += ["--changelog", _location(spark, engine, "log"), "--versions", _location(spark, engine, "versions")]
    load = ["load", "--table", "d.t", "--time-zone", "UTC", *outputs, "--source"]
    source = snapshots.dump("dump", then, tso)
    batches = list(Delivery(tail, encoded, is_avro, past=with_past).batches(_BATCHES)) if tail.changes else []
    loads_at = chance.randint(0, len(batches))
    again_at = chance.randint(loads_at, len(batches)) if chance.random() < 0.4 else -1

    def ddl(newest: int, is_last: bool) -> list[str]:
        known = [s for s in history.statements if s[0] <= newest or is_last]
        known = known if knows_all else [s for s in known if s[0] > start_ts]
        _write_ddl(known, "ddl.jsonl")
        if not knows_all:
            first = {"commit_ts": start_ts, "db": "d", "query": _shown(began), "mode": "show"}
            Path("ddl.jsonl").write_text(json.dumps(first) + "\n" + Path("ddl.jsonl").read_text())
        return ["--ddl", "ddl.jsonl"]

    def run(words: list[str]) -> None:
        code = _run(words, kills, chance.randint(1, 20))
        assert code == 0, f"{where}: {words}, snapshot after {steps} steps, after {kills.of}"

    newest = known_until = start_ts
    for n in range(len(batches) + 1):
        if n in (loads_at, again_at):
            late = n == loads_at > 0 or n == again_at
            if late or with_past:  # what load is given of the history, merge has from then on; a changelog needs it
                known_until = tso
            known = ddl(max(newest, tso), n == len(batches)) if late or chance.random() < 0.5 else []
            replace = ["--replace"] if chance.random() < 0.3 else []
            run([*load, source, *known, *replace])
        if n < len(batches):
            batch, newest = batches[n]
            known = ddl(max(newest, known_until), n == len(batches) - 1)
            run([*merge, *outputs, "--in", written(batch, f"{n}.jsonl"), *known])
    if not batches:
        return
    details = f"{where}: TSO {tso} of {start_ts} after {steps} steps, load {loads_at} of {len(batches)}, {kills.of}"
    assert not _difference(spark, history, engine), details
    if with_past:
        assert not log_difference(history, rows_of_any(spark, "log", engine), is_avro, tso), details
        kept = rows_of_any(spark, "versions", engine)
        # Of Avro's deletes only a key's last one is known to a load that comes later.
        since = tso if not is_avro or loads_at == 0 else history.changes[-1].commit_ts
        assert not versions_difference(history, kept, is_avro, history.schema, since), details
