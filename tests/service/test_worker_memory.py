"""What workers share beside changes: counts by name, and reports."""

from __future__ import annotations

from ticdc_bridge.service.tracker.metrics import read_reports, write_reports
from ticdc_bridge.service.tracker.progress import Progress
from ticdc_bridge.service.worker_memory import CountTable, WorkerMemory


def test_counts_stay_when_a_worker_is_replaced() -> None:
    memory = WorkerMemory(2)
    row = memory.counts[1].row("GET 200 /subjects")
    row.buckets[3] += 2
    row.seconds[0] += 0.5
    memory.counts[1].in_flight[0] = 7
    memory.start(1, 42)
    (name,) = memory.counts[1].rows()
    assert (name, memory.counts[1].in_flight[0], memory.pids[1]) == ("GET 200 /subjects", 0, 42)
    assert memory.counts[1].row(name).buckets[3] == 2
    assert memory.counts[0].rows() == {}


def test_counts_without_room_are_added_to_the_last() -> None:
    table: CountTable = WorkerMemory().counts[0]
    for number in range(3000):
        table.row(f"GET 200 /{number}").buckets[0] += 1
    assert sum(row.buckets[0] for row in table.rows().values()) == 3000
    assert table.row("GET 200 /7").buckets[0] == 1


def test_reports_of_trackers() -> None:
    report = WorkerMemory(2).reports[0]
    assert read_reports(report.read()) == []
    progress = Progress("shop", messages=3, lag={("t", 0): 5, ("t", 1): 0}, stopped="why")
    progress.errors["TRUNCATED"] += 1
    report.write(write_reports([(progress, 1.5), (Progress("other"), None)]))
    ((same, seconds), (other, none)) = read_reports(report.read())
    assert (same.messages, same.lag, same.errors, same.stopped, seconds) == (
        3,
        {("t", 0): 5, ("t", 1): 0},
        {"TRUNCATED": 1},
        "why",
        1.5,
    )
    assert (other.changefeed, none) == ("other", None)
    report.write("x" * (2 << 20))  # too long: what was there stays
    assert len(read_reports(report.read())) == 2
