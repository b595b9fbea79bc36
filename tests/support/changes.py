"""A changefeed of one table in Open Protocol: as many changes as a test wants, and what is true after them."""

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.history_events import T0, framed, resolved
from ticdc_bridge.schemas.model.event import Message

STEP = 1 << 18
CREATE = "CREATE TABLE {} (id bigint PRIMARY KEY, total decimal(10,2), note varchar(40))"
POISON = Message(b"\x00\x00not a key", b"poison", headers=(("x", b"\x00\xff"), ("y", None)))

Change = tuple[int, str, int, str | None]
"""commit_ts, op, id, total (None: deleted)."""


@dataclass
class Changes:
    """Inserts, updates and deletes of shop.NAME. `table`: the rows after all that was made; `made`: each change once,
    `sent`: as often as it was given out.

    again: how many of a lot's messages come a second time, as TiCDC sends after a retry. poison: how many that nobody
    can read. A lot ends with a watermark on every partition.
    """

    partitions: int = 2
    again: int = 0
    poison: int = 0
    seed: str = "changes"
    name: str = "orders"
    table: dict[int, str] = field(default_factory=dict)
    made: list[Change] = field(default_factory=list)
    sent: list[Change] = field(default_factory=list)
    poisoned: int = 0
    _ts: int = T0
    _chance: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self._chance.seed(self.seed)

    @property
    def newest_ts(self) -> int:
        """The commit_ts of the newest change, and of the newest watermark."""
        return self._ts

    def ddl(self, path: Path) -> Path:
        """The table's definition as --ddl takes it."""
        path.write_text(json.dumps({"commit_ts": T0, "db": "shop", "query": CREATE.format(self.name)}) + "\n")
        return path

    def lot(self, count: int) -> list[Message]:
        """`count` changes, a key's in order on its partition, and what goes with them."""
        first = len(self.made)
        out = [self._change() for _ in range(count)]
        again = self._chance.sample(range(count), self.again)
        self.sent += self.made[first:] + [self.made[first + n] for n in again]
        for message in [out[n] for n in again]:
            after = next(n for n, m in enumerate(out) if m is message)
            out.insert(self._chance.randint(after + 1, len(out)), message)
        for _ in range(self.poison):
            index = self._chance.randrange(self.partitions)
            out.insert(self._chance.randint(0, len(out)), _on(POISON, index))
        self.poisoned += self.poison
        return out + [_on(resolved(self._ts), n) for n in range(self.partitions)]

    def _change(self) -> Message:
        self._ts += self._chance.randint(1, 3) * STEP
        alive = sorted(self.table)
        roll = self._chance.random()
        id_ = self._chance.randrange(1, 1_000_000) if not alive or roll < 0.5 else self._chance.choice(alive)
        old = self.table.get(id_)
        if old is not None and roll > 0.85:
            del self.table[id_]
            self.made.append((self._ts, "d", id_, None))
            return self._message(id_, {"d": _columns(id_, old)})
        new = f"{self._chance.randrange(10_000_000)}.{self._chance.randrange(100):02d}"
        self.table[id_] = new
        self.made.append((self._ts, "c" if old is None else "u", id_, new))
        return self._message(id_, {"u": _columns(id_, new)} | ({} if old is None else {"p": _columns(id_, old)}))

    def _message(self, id_: int, value: dict[str, Any]) -> Message:
        head = {"ts": self._ts, "scm": "shop", "tbl": self.name, "t": 1}
        return _on(Message(*framed(head, json.dumps(value).encode())), id_ % self.partitions)


def _on(message: Message, partition: int) -> Message:
    return Message(message.key, message.value, None, partition, None, None, message.headers)


def _columns(id_: int, total: str) -> dict[str, Any]:
    return {
        "id": {"t": 8, "h": True, "f": 11, "v": id_},
        "total": {"t": 246, "f": 65, "v": total},
        "note": {"t": 15, "f": 64, "v": f"note of {id_}"},
    }


def change_of(line: dict[str, Any]) -> Change:
    """A plain-form row → what `Changes.made` has of it."""
    row = line["before"] if line["op"] == "d" else line["after"]
    return line["commit_ts"], line["op"], int(row["id"]), None if line["op"] == "d" else row["total"]
