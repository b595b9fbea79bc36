"""Damage messages for as long as it is given:   python -m tests.fuzzing --seconds 600

Every golden case of every format that is read, and the corpus (tests/corpus), are damaged in turn. What comes out must
be events or the bridge's own error, in UTF-8 and JSON. A message whose outcome has not been seen before (another error,
or an error about something else) joins the corpus; tests/schemas/formats/test_corpus.py reads it in every run. A
message that breaks the rule joins it too, under `broken`, and the exit code is 1.
"""

import argparse
import base64
import hashlib
import json
import random
import re
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.fuzz import checked, damaged, material
from tests.support.golden import READ, ROOT, Golden
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message

CORPUS = ROOT / "tests" / "corpus"
MOST = 400
LARGEST = 2048
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|\b[0-9a-f]{2,}\b|[^\x20-\x7e]+")
_NUMBER = re.compile(r"\d+")


def outcome(golden: Golden, message: Message) -> str:
    """The result of a message read by a fresh decoder: its error without names and numbers, or its kinds of events.

    Any error but WireError passes through.
    """
    result = decode_message(golden.side().decoder(), message)
    checked(result, message)
    if isinstance(result.error, WireError):
        return f"{result.error.code}: {_NUMBER.sub('#', _QUOTED.sub('…', result.error.detail))[:120]}"
    return "events: " + ",".join(sorted({type(event).__name__ for event in result.events}))


def line(golden: Golden, message: Message, found: str) -> dict[str, Any]:
    """A line of the corpus."""
    return {
        "case": golden.name,
        "key_b64": None if message.key is None else base64.b64encode(message.key).decode(),
        "value_b64": None if message.value is None else base64.b64encode(message.value).decode(),
        "outcome": found,
    }


def read(path: Path) -> list[tuple[Golden, Message, str]]:
    """The messages of a file of the corpus; its name is the format's."""
    format_ = path.name.partition(".")[0]
    found = []
    for text in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(text)
        key, value = (None if entry[n] is None else base64.b64decode(entry[n]) for n in ("key_b64", "value_b64"))
        found.append((Golden(format_, entry["case"]), Message(key, value), entry["outcome"]))
    return found


def files() -> list[Path]:
    return sorted(CORPUS.glob("*.jsonl"))


@dataclass
class Fuzzer:
    """One format: what is damaged, what has been seen, what was found."""

    format: str
    rng: random.Random
    seen: dict[str, tuple[Golden, Message]] = field(default_factory=dict)
    broken: dict[str, tuple[Golden, Message]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.path = CORPUS / f"{self.format}.jsonl"
        if self.path.exists():
            self.seen = {found: (golden, message) for golden, message, found in read(self.path)}
        self._known = set(self.seen)
        self._material = material(self.format)

    def round(self, mutations: int) -> None:
        golden, messages = self.rng.choice(self._material)
        own = [message for case, message in self.seen.values() if case.name == golden.name and message.value]
        pool = messages + own
        values = [m.value for m in pool if m.value]
        keys = [m.key for m in pool if m.key] or [b""]
        for _ in range(mutations):
            self._try(golden, damaged(self.rng, self.rng.choice(pool), values, keys))

    def _try(self, golden: Golden, message: Message) -> None:
        self.counts["messages"] += 1
        try:
            found = outcome(golden, message)
        except Exception as error:  # the very thing that is looked for
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.broken[f"{type(error).__name__} in {Path(where.filename).name}:{where.name}"] = golden, message
            return
        small = len(message.value or b"") + len(message.key or b"") <= LARGEST
        if found not in self.seen and small and len(self.seen) < MOST:
            self.seen[found] = golden, message

    def keep(self) -> int:
        """Write the corpus; how many messages joined it."""
        new = {found: value for found, value in self.seen.items() if found not in self._known}
        if new:
            _append(self.path, new)
        if self.broken:
            _append(self.path.with_name(f"{self.format}.broken.jsonl"), self.broken)
        return len(new)


def _append(path: Path, found: dict[str, tuple[Golden, Message]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as out:
        for what, (golden, message) in found.items():
            out.write(json.dumps(line(golden, message, what), ensure_ascii=False) + "\n")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=600, help="how long (600)")
    parser.add_argument("--seed", default=None, help="the same messages again; another each time without")
    given = parser.parse_args(arguments)
    seed = given.seed or hashlib.sha256(str(time.time_ns()).encode()).hexdigest()[:8]
    fuzzers = [Fuzzer(name, random.Random(f"{seed} {name}")) for name in READ]
    print(f"seed {seed}, {len(fuzzers)} formats, {given.seconds:g} s", file=sys.stderr)
    end = time.monotonic() + given.seconds
    try:
        while time.monotonic() < end:
            for one in fuzzers:
                one.round(200)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    for one in fuzzers:
        joined = one.keep()
        print(
            f"{one.format}: {one.counts['messages']} messages, {joined} joined the corpus, {len(one.broken)} broke it"
        )
        for what in one.broken:
            print(f"  {what}")
    return 1 if any(fuzzer.broken for fuzzer in fuzzers) else 0


if __name__ == "__main__":
    sys.exit(main())
