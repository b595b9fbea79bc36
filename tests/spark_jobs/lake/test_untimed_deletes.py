"""Deletes without a commit_ts (Avro) by the rules for one key, without Spark: a row of memory stands for the table."""

import re
from dataclasses import dataclass

from tests.spark_jobs.lake.test_random_deletes import KeyHistory, describe
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.lake.untimed_deletes import KafkaPosition, KeyChange, StoredKey, last_change, latest


@dataclass
class _Row:
    """A key's row (its commit_ts, or None) and what the deleted keys have of it."""

    commit_ts: int | None = None
    deleted: StoredKey = StoredKey()  # noqa: RUF009  # a NamedTuple

    def merge(self, messages: list[Message]) -> None:
        changes = [_change(number, message) for number, message in enumerate(messages)]
        if (found := last_change(changes, self.deleted._replace(row_ts=self.commit_ts), True)) is None:
            return
        if found.until_ts is not None or found.position is not None:
            until_ts = latest(found.until_ts, self.deleted.until_ts)
            self.deleted = StoredKey(None, True, until_ts, found.position or self.deleted.position)
        is_newer = self.commit_ts is None or found.commit_ts is None or found.commit_ts > self.commit_ts
        if is_newer and not found.is_late:
            self.commit_ts = None if found.change.is_deleted else found.commit_ts


def _change(number: int, m: Message) -> KeyChange:
    commit_ts = None if m.value is None else int(re.findall(rb"\d{18}", m.value)[0])
    source = KafkaPosition(m.topic, m.partition, m.offset, (m.timestamp or 0) * 1000)
    return KeyChange(number, commit_ts, m.value is None, (m.offset or 0, number), source)


def test_rows_after_any_delivery() -> None:
    rows = dict[int, _Row]()
    histories = [KeyHistory(key, "memory") for key in range(3000)]
    for history in histories:
        row = rows[history.key] = _Row()
        for messages in filter(None, history.runs()):
            row.merge(messages)
            row.merge(messages)  # of a job that was killed after it
    wrong = [describe(h) for h in histories if h.name != (rows[h.key].commit_ts and str(rows[h.key].commit_ts))]
    assert not wrong, f"{len(wrong)} keys, such as " + "\n".join(wrong[:8])
