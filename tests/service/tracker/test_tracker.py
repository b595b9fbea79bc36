"""The tracker on messages of every format, on damaged ones, on snapshots in the stream, and killed in the middle."""

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.command_process import Command
from tests.support.each import each
from tests.support.golden import GOLDEN
from tests.support.history_events import T0, ddl, everything, resolved, write
from tests.support.service import ended, environment, until
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.model.errors import DdlError, SetupError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.history import statements
from ticdc_bridge.service.history.model import State
from ticdc_bridge.service.registry.deadline import Outage
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.store.history_store import HistoryStore
from ticdc_bridge.service.store.transaction import Transaction
from ticdc_bridge.service.tracker.config import TrackedChangefeed
from ticdc_bridge.service.tracker.progress import Progress
from ticdc_bridge.service.tracker.tracker import tracker_of

STEP = 1 << 18
FORMATS = {
    "open": "default", "open-tiflow": "default", "craft": "default", "simple": "json", "canal-json": "ext",
    "debezium": "ext.schema",
}  # fmt: skip


def followed(history: HistoryStore, name: str, file: Path, **more: object) -> Progress:
    tracker = tracker_of(TrackedChangefeed(name, (), file, **more), history, history._store, most=50)  # type: ignore[arg-type]
    tracker.run()
    return tracker.progress


@pytest.mark.parametrize("format_", FORMATS)
@each("case", ["evolution", "pk_composite", "wide_novec"])
def test_every_format_agrees_with_its_rows(histories: HistoryStore, format_: str, case: str) -> None:
    """The rows of the golden streams fit the versions that their own DDL gives: no drift, nothing unknown."""
    file = GOLDEN / format_ / f"{case}.{FORMATS[format_]}.jsonl"
    progress = followed(histories, case, file)
    assert (progress.errors, progress.failed, progress.pending, progress.drift) == ({}, 0, 0, 0)
    assert progress.sealed >= 1
    assert progress.events["rows"] >= 3
    seen = [n for row in histories.tables(case) for n in histories.count_fitting(case, *row.id).values()]
    assert sum(seen) >= progress.events["rows"]
    again = followed(histories, case, file)
    assert again.new == 0
    assert again.copies == progress.new


def test_without_watermarks_events_are_sealed_on_arrival(histories: HistoryStore) -> None:
    progress = followed(histories, "c", GOLDEN / "canal-json" / "evolution.default.jsonl")
    assert progress.sealed == progress.new > 5
    assert progress.sealed_ts == 0
    assert all(entry.unsealed_source for entry in histories.ddl("c"))


def test_simple_and_debezium_describe_tables_whose_create_was_not_seen(histories: HistoryStore, tmp_path: Path) -> None:
    for format_, options in (("simple", "json"), ("debezium", "ext.schema")):
        lines = (GOLDEN / format_ / f"evolution.{options}.jsonl").read_text(encoding="utf-8").splitlines(True)
        create = next(n for n, line in enumerate(lines) if '"kind": "ddl"' in line or '"kind":"ddl"' in line)
        file = tmp_path / f"{format_}.jsonl"
        # Bootstraps name the schema by a version that the golden's clock does not have: leave them out.
        file.write_text("".join(line for line in lines[create + 1 :] if "bootstrap" not in line), encoding="utf-8")
        progress = followed(histories, format_, file)
        first = histories.versions(format_, "test", "evo")[0][0]
        assert first.state is State.KNOWN
        assert first.table is not None
        assert [c.name for c in first.table.columns] == ["id", "v", "c1"]
        assert progress.failed == 1  # the first ALTER could not be applied; the message's table was taken
        whole = followed(histories, f"{format_}-whole", GOLDEN / format_ / f"evolution.{options}.jsonl")
        assert whole.drift == 0


def test_bootstrap_is_a_snapshot(histories: HistoryStore, tmp_path: Path) -> None:
    lines = (GOLDEN / "simple" / "pk_int.json.jsonl").read_text(encoding="utf-8").splitlines(True)
    shown = [line for line in lines if '"bootstrap"' in line]
    assert len(shown) == 1
    mark = write(tmp_path / "mark", [resolved(1 << 62)]).read_text()
    (tmp_path / "s.jsonl").write_text(shown[0] + mark, encoding="utf-8")
    progress = followed(histories, "c", tmp_path / "s.jsonl")
    assert (progress.sealed, progress.failed) == (1, 0)
    row = histories.version_at("c", "test", "pk_int")
    assert row is not None
    assert row.state is State.KNOWN
    assert row.table is not None
    assert row.table.primary_key == ("id",)


def test_damaged_messages_are_counted_and_passed_over(histories: HistoryStore, tmp_path: Path) -> None:
    chance = random.Random(7)
    good = [
        ddl(T0 + n * STEP, "d", f"t{n}", f"CREATE TABLE `d`.`t{n}` (`a` INT)", topic="t", partition=0)
        for n in range(30)
    ]
    stream: list[Message] = []
    for entry in good:
        value = bytearray(entry.value or b"")
        value[chance.randrange(len(value))] ^= 0xFF
        stream += [
            entry,
            replace(entry, value=bytes(value)[: chance.randrange(len(value))]),
            Message(None, b"\xff\x00", "t", 0),
        ]
    stream += [Message(b"", b"", "t", 0), Message(None, None, "t", 0), resolved(T0 + 99 * STEP, topic="t", partition=0)]
    file = write(tmp_path / "m.jsonl", [replace(item, offset=n) for n, item in enumerate(stream)])
    with file.open("a") as out:
        out.write('no json\n{"a":1}\n{"key_b64":5,"value_b64":"x"}\n')
    progress = followed(histories, "c", file, format="open")
    assert progress.new == progress.sealed == len(good)
    assert sum(progress.errors.values()) >= 2 * len(good)
    assert {str(row.id) for row in histories.tables("c")} == {f"d.t{n}" for n in range(30)}


def test_what_is_not_understood_leaves_its_table_unknown_and_nothing_else(
    histories: HistoryStore, tmp_path: Path
) -> None:
    stream = [
        ddl(T0, "d", "a", "CREATE TABLE `d`.`a` (`x` INT)"),
        ddl(T0 + STEP, "d", "b", "CREATE TABLE `d`.`b` (`x` INT)"),
        ddl(T0 + 2 * STEP, "d", "a", "ALTER TABLE `d`.`a` FROBNICATE `x`", 12),
        ddl(T0 + 3 * STEP, "d", "a", "ALTER TABLE `d`.`a` ADD COLUMN `y` INT", 5),
        ddl(T0 + 4 * STEP, "d", "b", "ALTER TABLE `d`.`b` ADD COLUMN `y` INT", 5),
        resolved(T0 + 9 * STEP),
    ]
    progress = followed(histories, "c", write(tmp_path / "m.jsonl", stream))
    assert progress.failed == 2
    row = histories.version_at("c", "d", "a")
    assert row is not None
    assert (row.state, row.since, row.table) == (State.ERROR, T0 + 2 * STEP, None)
    assert "FROBNICATE" in row.reason
    other = histories.version_at("c", "d", "b")
    assert other is not None
    assert other.state is State.KNOWN
    before = histories.version_at("c", "d", "a", T0 + 2 * STEP)
    assert before is not None
    assert before.table is not None


def test_the_parser_learns_and_a_rebuild_heals(
    histories: HistoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = [
        ddl(T0, "d", "a", "CREATE TABLE `d`.`a` (`x` INT)"),
        ddl(T0 + STEP, "d", "a", "ALTER TABLE `d`.`a` ADD COLUMN `y` INT", 5),
        ddl(T0 + 2 * STEP, "d", "a", "ALTER TABLE `d`.`a` ADD COLUMN `z` INT", 5),
        resolved(T0 + 9 * STEP),
    ]
    file = write(tmp_path / "m.jsonl", stream)
    followed(histories, "truth", file)

    def ignorant(query: str, *rest: object) -> object:
        if "`y`" in query:
            raise DdlError("DDL_SYNTAX", line=1, column=1, details="not learned yet")
        return parse(query, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(statements, "parse", ignorant)
    assert followed(histories, "c", file).failed == 2
    monkeypatch.setattr(statements, "parse", parse)
    done = histories.rebuild("c")
    assert (done.healed, done.failed) == (2, 0)
    wanted = [row[:3] + row[4:] for row in everything(histories, "truth")["d.a"]]
    assert [row[:3] + row[4:] for row in everything(histories, "c")["d.a"]] == wanted
    assert all(entry.error is None for entry in histories.ddl("c"))


@pytest.mark.slow
def test_killed_in_the_middle(tmp_path: Path) -> None:
    """SIGKILL at any moment, again and again: in the end nothing is lost, and nothing is there twice."""
    events = 1000
    stream = []
    for n in range(events):
        query = (
            f"CREATE TABLE `d`.`t{n}` (`id` BIGINT PRIMARY KEY,`v` VARCHAR(9))"
            if n < 50
            else f"ALTER TABLE `d`.`t{n % 50}` ADD COLUMN `c{n}` DECIMAL(10,2)"
        )
        for partition in range(2):
            stream.append(ddl(T0 + n * STEP, "d", f"t{n % 50}", query, topic="t", partition=partition, offset=2 * n))
            stream.append(resolved(T0 + n * STEP, topic="t", partition=partition, offset=2 * n + 1))
    file = write(tmp_path / "m.jsonl", stream)
    url = f"sqlite:///{tmp_path / 'killed.db'}"
    command = ("track", "--in", str(file), "--changefeed", "c", "--store", url)
    kills = 0
    watched = open_store(url)
    history = HistoryStore(watched)
    for _ in range(2):
        process = Command(command, tmp_path, environment())
        before = sealed(history)
        until(lambda: process.poll() is not None or sealed(history) != before)  # noqa: B023
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.communicate()
    watched.close()
    assert kills >= 1
    done = ended(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    left, other = open_store(url), open_store(f"sqlite:///{tmp_path / 'whole.db'}")
    whole = HistoryStore(other)
    followed(whole, "c", file)
    assert everything(HistoryStore(left), "c") == everything(whole, "c")
    assert [(e.commit_ts, e.copies) for e in HistoryStore(left).ddl("c", limit=9999)] == [
        (e.commit_ts, 2) for e in whole.ddl("c", limit=9999)
    ]
    left.close()
    other.close()


def test_no_source_is_opened_without_the_folder_of_claim_checks(histories: HistoryStore, tmp_path: Path) -> None:
    """The service tries again and again, and a consumer that nobody closes stays connected."""
    missing, file = tmp_path / "claims", tmp_path / "not opened"
    with pytest.raises(SetupError, match="claims: there is no such folder"):
        followed(histories, "c", file, claim_check_dir=missing)


def sealed(history: HistoryStore) -> int:
    """How far another process has got."""
    return next((changefeed.sealed_ts for changefeed in history.changefeeds()), 0)


def test_an_outage_of_the_store_is_waited_for(histories: HistoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost and nothing counted twice when transactions fail, also when only their COMMIT does."""
    store, write_to, left = histories._store, histories._store.write, [2, 1]

    @contextmanager
    def write_or_fail() -> Iterator[Transaction]:
        with write_to() as tx:
            if left[0]:
                left[0] -= 1
                raise Outage("Write")
            yield tx
            if left[1]:
                left[1] -= 1
                raise Outage("Write")

    monkeypatch.setattr(store, "write", write_or_fail)
    file = GOLDEN / "open" / "evolution.default.jsonl"
    progress = followed(histories, "c", file)
    assert left == [0, 0]
    assert (progress.errors, progress.failed, progress.pending, progress.drift) == ({}, 0, 0, 0)
    assert progress.new == len(histories.ddl("c")) >= 1
