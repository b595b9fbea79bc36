"""What writers were told, and whether a registry holds it: nothing lost, no number twice, no holes."""

import json
import threading
from dataclasses import dataclass, field

from tests.support.service import Client, column, record


def schema(writer: int, number: int) -> str:
    return record(f"r{writer}_{number}", column("a"), column(f"b{number}", "string"), namespace="survival")


@dataclass
class Told:
    """Ids that were answered with 200, by subject and schema text."""

    ids: dict[tuple[str, str], int] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, subject: str, text: str, status: int, body: bytes) -> None:
        with self._lock:
            self.statuses[status] = self.statuses.get(status, 0) + 1
            if status == 200:
                self.ids[subject, text] = json.loads(body)["id"]

    def check(self, client: Client) -> None:
        """Everything that was acknowledged is there under its id, versions count from 1, an id means one schema."""
        by_id: dict[int, str] = {}
        for (_, text), number in self.ids.items():
            assert by_id.setdefault(number, text) == text, f"id {number} was handed out twice"
        for subject in {subject for subject, _ in self.ids}:
            versions = client.get(f"/subjects/{subject}/versions").json
            assert versions == list(range(1, len(versions) + 1)), subject
            held = {}
            for version in versions:
                entry = client.get(f"/subjects/{subject}/versions/{version}").json
                held[entry["id"]] = json.loads(entry["schema"])
            assert len(held) == len(versions), f"{subject} has an id twice"
            for (own, text), number in self.ids.items():
                if own == subject:
                    assert held.get(number) == json.loads(text), f"id {number} of {subject}"

    def wrong(self, client: Client) -> int:
        """How many acknowledged writes are not what was sent, where nothing can promise that (docs/operate.md)."""
        found = 0
        for (_, text), number in self.ids.items():
            answer = client.get(f"/schemas/ids/{number}")
            try:
                found += json.loads(answer.json["schema"]) != json.loads(text)
            except (ValueError, LookupError):
                found += 1
        return found
