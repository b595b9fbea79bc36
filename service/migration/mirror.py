"""A mirror: our store follows another registry, and its answers are compared with that one's all the time.

Where a mirror's schemas come from: another registry over REST, asked again and again, or its topic.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol

from ticdc_bridge.clients.http import CONNECTIONS, GATEWAY, HttpClient, HttpResponse
from ticdc_bridge.schemas.inputs.kafka_settings import TOPIC
from ticdc_bridge.schemas.model.errors import BridgeError, SetupError
from ticdc_bridge.service.migration.mirror_checks import MirrorRequest, find_differences, questions
from ticdc_bridge.service.migration.plan import MigrationPlan, carry_out, fingerprint, plan_follow, with_contents
from ticdc_bridge.service.migration.rest_reader import RestSource
from ticdc_bridge.service.migration.schemas_topic import SchemasTopic
from ticdc_bridge.service.migration.snapshot import Snapshot, parse_versions, snapshot_of
from ticdc_bridge.service.migration.topic_replay import Replay
from ticdc_bridge.service.registry.ports import Store
from ticdc_bridge.service.registry.registry import Registry


class MirrorSource(Protocol):
    name: str

    def read(self, *, whole: bool = False, only: str | None = None) -> Snapshot:
        """What the upstream holds now. Raises SetupError.

        `whole`: nothing seen before is taken for granted. `only`: nothing but this subject may have changed.
        """

    def problems(self) -> list[str]:
        """What the last read could not take over."""


class RestMirrorSource:
    """Lists of subjects, versions, configs and modes each time; schemas once, unless `whole`."""

    def __init__(self, asker: HttpClient) -> None:
        self.name = asker.name
        self._asker = asker
        self._last = Snapshot()
        self._read_once = False
        self._problems: list[str] = []

    def read(self, *, whole: bool = False, only: str | None = None) -> Snapshot:
        source = RestSource(self._asker)
        if only is not None and self._read_once:
            self._last = source.read_again(only, self._last)
            return self._last
        also: Iterable[str] = {*self._last.configs, *self._last.modes}
        self._last = source.read(also, known=None if whole else self._last)
        self._problems = [*(f"{n} × {reason}" for reason, n in source.left_out.items()), *source.broken]
        self._read_once = True
        return self._last

    def problems(self) -> list[str]:
        return self._problems


class TopicMirrorSource:
    """A `_schemas` topic, read on from where it was left."""

    def __init__(self, topic: SchemasTopic) -> None:
        self.name = f"{TOPIC}{topic.name}"
        self._topic = topic
        self._replay = Replay()

    def read(self, *, whole: bool = False, only: str | None = None) -> Snapshot:
        self._replay.now = time.time_ns() // 1_000_000
        self._replay.apply_all(self._topic.records())
        snapshot = self._replay.snapshot
        return replace(
            snapshot, versions=dict(snapshot.versions), configs=dict(snapshot.configs), modes=dict(snapshot.modes)
        )

    def problems(self) -> list[str]:
        left = (f"{n} × {reason}" for reason, n in {**self._replay.left_out, **self._replay.unknown}.items())
        return [*left, *self._replay.broken]


_LOG: Final = logging.getLogger("service.mirror")
_FACT: Final = "mirror"
_LONGEST_PAUSE: Final = 60.0
_WHOLE_EVERY: Final = 20
_SHOWN: Final = 400


@dataclass(slots=True)
class MirrorStatus:
    """How a mirror is doing; times are in seconds since 1970, None for what has not happened."""

    upstream: str
    syncs: int = 0
    failures: int = 0
    changes: int = 0
    compared: int = 0
    last_sync: float | None = None
    stale_since: float | None = None
    error: str | None = None
    problems: list[str] = field(default_factory=list)


class Mirror:
    """`store` is written by nobody else. `compared_with` and `own` are asked the same questions; `compared_with` None:
    nothing is compared. Differences go to `report` as JSON lines: one when it begins, one when it is over.

    `compare` is called by one thread at a time; the rest by any.
    """

    def __init__(
        self,
        store: Store,
        source: MirrorSource,
        own: HttpClient,
        compared_with: HttpClient | None = None,
        *,
        report: Path | None = None,
        ignored: Collection[str] = (),
        overwrite: bool = False,
    ) -> None:
        self._store = store
        self._registry = Registry(store)
        self._source = source
        self._own = own
        self._upstream = compared_with
        self._report = report
        self._ignored = tuple(ignored)
        self._checked = overwrite
        self._asked = 0
        self._lock = threading.Lock()
        self._syncing = threading.RLock()
        self._status = MirrorStatus(source.name)
        self.differences: dict[MirrorRequest, list[str]] = {}

    # ---- following

    def sync(self, *, whole: bool = False, only: str | None = None) -> MigrationPlan:
        """Bring the store to what the upstream holds. Raises BridgeError; nothing is written then.

        `whole` and `only` as in `MirrorSource.read`.
        """
        with self._syncing:
            return self._sync(whole, only)

    def _sync(self, whole: bool, only: str | None) -> MigrationPlan:
        began = time.time()
        self.check_store()
        snapshot = self._source.read(whole=whole, only=only)
        with self._store.read() as reader:
            plan = plan_follow(snapshot, snapshot_of(reader))
        if plan.changes:
            ready, _ = parse_versions(self._registry, plan.add, snapshot)
            with self._store.write() as tx:
                carry_out(tx, with_contents(plan, ready))
                tx.put_fact(_FACT, json.dumps({"of": self._source.name, "print": fingerprint(snapshot_of(tx))}))
            _LOG.info("mirror: %s", ", ".join(f"{number} {what}" for what, number in plan.changes.items()))
        with self._lock:
            status = self._status
            status.syncs, status.changes = status.syncs + 1, status.changes + sum(plan.changes.values())
            status.last_sync, status.stale_since, status.error = began, None, None
            status.problems = self._source.problems()
        return plan

    def check_store(self) -> None:
        """A store that somebody else wrote to since is not overwritten. Raises SetupError."""
        if self._checked:
            return
        with self._store.read() as tx:
            there, fact = snapshot_of(tx), tx.fact(_FACT)
        if there.versions or there.configs or there.modes:
            state = json.loads(fact) if fact else {}
            if state.get("print") != fingerprint(there):
                details = (
                    "the store holds schemas that no mirror wrote; following would delete what the upstream lacks. "
                    "Name an empty store, or say --overwrite"
                )
                raise SetupError("USAGE", details=details)
        self._checked = True

    # ---- comparing

    def compare(self, most: int | None = None) -> int:
        """Ask both sides the next `most` questions, or all; the number of answers that differ among those known.

        What differs is asked again after another sync, since the upstream may have changed in between.
        """
        if self._upstream is None:
            return 0
        with self._store.read() as tx:
            every = list(questions(snapshot_of(tx)))
        self._drop_stale(every)
        start = self._asked % max(len(every), 1)
        number = len(every) if most is None else min(most, len(every))
        chosen = [*every[start : start + number], *every[: max(start + number - len(every), 0)]]
        self._asked = start + number
        chosen = list(dict.fromkeys([*chosen, *self.differences]))
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            differences = dict(self._find_differing(pool, chosen))
            if differences:
                self.sync(whole=True)
                differences = dict(self._find_differing(pool, list(differences)))
        for question in chosen:
            self._note(question, differences.get(question))
        with self._lock:
            self._status.compared += len(chosen)
        return len(self.differences)

    def _find_differing(
        self, pool: ThreadPoolExecutor, requests: list[MirrorRequest]
    ) -> Iterable[tuple[MirrorRequest, tuple[list[str], HttpResponse, HttpResponse]]]:
        for question, answers in zip(requests, pool.map(self._ask, requests), strict=True):
            what = find_differences(question, *answers, self._ignored)
            if what:
                yield question, (what, *answers)

    def _ask(self, question: MirrorRequest) -> tuple[HttpResponse, HttpResponse]:
        assert self._upstream is not None
        theirs = self._upstream.ask(question.method, question.target, question.json_body)
        if theirs.status in GATEWAY:  # any other error is an answer, and perhaps one that differs
            details = f"{question.target}: {theirs.error_text}"
            raise SetupError("REGISTRY_UNREACHABLE", url=self._upstream.name, details=details)
        return theirs, self._own.ask(question.method, question.target, question.json_body)

    def _drop_stale(self, every: Collection[MirrorRequest]) -> None:
        """Questions about what is gone are not asked any more."""
        for question in set(self.differences) - set(every):
            self._note(question, None)

    def _note(self, question: MirrorRequest, difference: tuple[list[str], HttpResponse, HttpResponse] | None) -> None:
        before = self.differences.get(question)
        if difference is None:
            if before is not None:
                del self.differences[question]
                self._write(question, {"differs": []})
            return
        what, theirs, ours = difference
        self.differences[question] = what
        if before != what:
            self._write(question, {"differs": what, "upstream": _answer_json(theirs), "own": _answer_json(ours)})

    def _write(self, question: MirrorRequest, difference: dict[str, Any]) -> None:
        line = {"ts": int(time.time() * 1000), "method": question.method, "path": question.target}
        if question.body:
            line["request"] = question.json_body
        text = json.dumps(line | difference, ensure_ascii=False)
        if self._report is None:
            _LOG.warning("mirror: differs: %s", text[:_SHOWN]) if difference["differs"] else None
            return
        with open(self._report, "a", encoding="utf-8") as out:
            out.write(text + "\n")

    # ---- going on

    def run(self, stop: threading.Event, interval: float, most: int) -> None:
        """Follow and compare until `stop`; trouble with the upstream is waited out."""
        failed, rounds = 0, 0
        while not stop.is_set():
            try:
                self.sync(whole=rounds % _WHOLE_EVERY == 0)
                self.compare(most)
                failed, rounds = 0, rounds + 1
                pause = interval
            except BridgeError as error:
                failed += 1
                self._note_failure(error.detail)
                pause = min(2.0 ** min(failed - 1, 10), _LONGEST_PAUSE)
            except Exception as error:  # a defect of ours must not end the mirror without a word
                failed += 1
                _LOG.exception("mirror: unforeseen")
                self._note_failure(f"{type(error).__name__}: {error}")
                pause = _LONGEST_PAUSE
            stop.wait(pause)

    def _note_failure(self, reason: str) -> None:
        with self._lock:
            status = self._status
            status.failures += 1
            if status.stale_since is None:
                status.stale_since = time.time()
                _LOG.warning("mirror: %s; reads go on with what is here", reason)
            status.error = reason

    def status(self) -> dict[str, Any]:
        """What `GET /mirror` answers; times in ms."""
        with self._lock:
            status = self._status
            state = "stale" if status.stale_since else "in step" if status.last_sync else "starting"
            lag = None if status.last_sync is None else round(time.time() - status.last_sync, 3)
            return {
                "upstream": status.upstream,
                "state": state,
                "last_sync": _ms(status.last_sync),
                "lag_seconds": lag,
                "stale_since": _ms(status.stale_since),
                "error": status.error,
                "syncs": status.syncs,
                "failures": status.failures,
                "changes": status.changes,
                "compared": status.compared,
                "differences": len(self.differences),
                "differing": [f"{q.method} {q.target}" for q in islice(list(self.differences), 100)],
                "not_carried_over": status.problems[:100],
            }


def _answer_json(answer: HttpResponse) -> dict[str, Any]:
    return {"status": answer.status, "type": answer.media, "body": answer.json}


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)
