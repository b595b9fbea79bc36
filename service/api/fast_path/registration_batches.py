"""New schemas round the router: one thread registers those that wait, in one transaction with one commit.

The event loop reads the requests, the thread takes what waits whenever its turn to write has come, so neither threads
nor commits grow with the number of writers. Only a new text under a simple name goes this way
(`register.register_plain`). Errors and a store in trouble are left to the app.
"""

import asyncio
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Final

from ticdc_bridge.schemas.model.errors import BridgeError
from ticdc_bridge.service.api import responses
from ticdc_bridge.service.api.bodies import SCHEMA, check_size, new_schema, parse, read_fields
from ticdc_bridge.service.api.request import Services, check_content_type, compact, negotiate
from ticdc_bridge.service.registry.config import config_chain
from ticdc_bridge.service.registry.model import NewSchema
from ticdc_bridge.service.registry.names import normalize_subject
from ticdc_bridge.service.registry.ports import ReadAhead, StoreWriter
from ticdc_bridge.service.registry.references import UnderstoodSchema, understand
from ticdc_bridge.service.registry.register import register_plain
from ticdc_bridge.service.server.logs import REQUEST_ID

ROUTE: Final = "/subjects/{subject}/versions"
_PATH = re.compile(rb"/subjects/([A-Za-z0-9_-][A-Za-z0-9_.~-]*)/versions")
_QUERY = re.compile(rb"(?:normalize=(?:(true)|false))?", re.IGNORECASE)
_LONGEST_BODY: Final = 64 * 1024
_READ_AT_ONCE: Final = 16 * 1024
"""Characters of an Avro schema that the event loop understands itself: in 0.2 ms, or 8 if its columns are new."""
_MOST: Final = 64
_TURN_SECONDS: Final = 1.0
_PATIENCE: Final = 5.0


@dataclass(frozen=True, slots=True)
class PendingRegistration:
    """A request to register a schema, as far as the event loop looks at it."""

    subject: str
    normalize: bool
    media_type: str
    body: bytes
    request_id: str


@dataclass(frozen=True, slots=True)
class PlainRegistration:
    """A request that may be answered here, and what its schema is."""

    request: PendingRegistration
    new: NewSchema
    understood: UnderstoodSchema


Waiting = tuple[PlainRegistration, asyncio.Future[bytes | None]]


class RegistrationBatcher:
    """One for an app. Its event loop lays down what waits, and its thread takes it away."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.store = services.registry.store
        self._thread = ThreadPoolExecutor(1, "registrations")
        self._reader = ThreadPoolExecutor(1, "registrations-read")
        self._waiting: deque[Waiting] = deque()
        self._taking = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop that the batch at work was taken from; None when there is none."""
        self._late: asyncio.TimerHandle | None = None
        self._stuck = False
        self._meets_repeats = True
        """True if the last batch had schemas that were stored already."""

    def parse_request(
        self, path: bytes, query: bytes, accept: bytes | None, content_type: bytes | None, body: bytes, request_id: str
    ) -> PendingRegistration | None:
        """Reads a POST. None where the app has to answer it."""
        path_match, flags = _PATH.fullmatch(path), _QUERY.fullmatch(query)
        if path_match is None or flags is None or len(body) > min(_LONGEST_BODY, self._services.max_body_bytes):
            return None
        try:
            check_content_type(None if content_type is None else content_type.decode("latin-1"))
            media_type = negotiate(None if accept is None else accept.decode("latin-1"))
        except BridgeError:
            return None
        return PendingRegistration(
            normalize_subject(path_match[1].decode()), bool(flags[1]), media_type, body, request_id
        )

    async def register(self, request: PendingRegistration) -> bytes | None:
        """The body of a 200, when what it says is durable; None if the app has to answer."""
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop:  # that one has ended
            self._waiting = deque()
            self._loop, self._stuck = None, False
        plain = None if self._stuck else await self._read(request)
        if plain is None or self._stuck:
            return None
        answer: asyncio.Future[bytes | None] = loop.create_future()
        self._waiting.append((plain, answer))
        if self._loop is None:
            self._loop = loop
            loop.call_soon(loop.call_soon, self._hand_over, loop)  # after all that came with this one
        return await answer

    async def _read(self, request: PendingRegistration) -> PlainRegistration | None:
        """The schema of a request that sends only its text; read here where that is cheaper than a hop to a thread."""
        try:
            value = parse(request.body)
            if not isinstance(value, dict):
                return None
            check_size(value, self._services)
            new = new_schema(read_fields(SCHEMA, value))
            if not new.text.strip() or new != NewSchema(new.text, new.kind):
                return None
            understand_it = partial(understand, self._services.registry, new)
            if new.kind == "AVRO" and len(new.text) <= _READ_AT_ONCE:
                return PlainRegistration(request, new, understand_it())
            loop = asyncio.get_running_loop()
            return PlainRegistration(request, new, await loop.run_in_executor(self._reader, understand_it))
        except (ValueError, RecursionError, BridgeError):
            return None

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        batch: list[Waiting] = []
        self._loop = loop
        self._wait_for(loop, batch)
        self._thread.submit(self._register_waiting, loop, batch, self._waiting)

    def _wait_for(self, loop: asyncio.AbstractEventLoop, batch: list[Waiting]) -> None:
        self._late = loop.call_later(min(_PATIENCE, self.store.wait_seconds), self._give_up, batch)

    def _give_up(self, batch: list[Waiting]) -> None:
        """The thread hangs, perhaps in a database that does not answer: until it is back, nobody waits for it."""
        self._stuck = True
        with self._taking:
            unanswered = (*batch, *self._waiting)
            self._waiting.clear()
        answer_all(unanswered, repeat(None))

    def _register_waiting(self, loop: asyncio.AbstractEventLoop, batch: list[Waiting], waiting: deque[Waiting]) -> None:
        """In the thread, until nothing waits. batch: filled here with what is taken of those that wait."""
        more: list[Waiting] | None = batch
        while more is not None:
            batch, more = more, None
            answers: dict[int, bytes | None] = {}
            try:
                answers = self._answers(batch, waiting)
                more = [] if waiting else None
            finally:
                loop.call_soon_threadsafe(self._take, loop, batch, [answers.get(id(entry)) for entry, _ in batch], more)

    def _take(
        self, loop: asyncio.AbstractEventLoop, batch: list[Waiting], answers: list[bytes | None],
        more: list[Waiting] | None,
    ) -> None:  # fmt: skip
        """more: the batch that the thread has gone on to; None where it has ended."""
        if self._late is not None:
            self._late.cancel()
        answer_all(batch, answers)
        self._stuck = False
        if more is not None:
            self._wait_for(loop, more)
            return
        self._loop = None
        if self._waiting:
            self._hand_over(loop)

    # ---- in the thread

    def _answers(self, batch: list[Waiting], waiting: deque[Waiting]) -> dict[int, bytes | None]:
        """The answers by the `id` of what they answer."""
        taken = self._take_from(waiting, batch)
        # Of each subject one alone: what comes at the same time is a repeat, or has to be compared with it.
        plain = {entry.request.subject: entry for entry in reversed(taken)}
        if self._meets_repeats:
            plain = self._drop_repeats(plain)

        def collect() -> tuple[list[Callable[[StoreWriter], bytes]], ReadAhead]:
            for entry in self._take_from(waiting, batch):
                plain.setdefault(entry.request.subject, entry)
            scopes = dict.fromkeys(scope for subject in plain for scope in config_chain(subject))
            ahead = ReadAhead([*plain], [*scopes], [value.understood.content for value in plain.values()])
            return [partial(self._register_schema, value) for value in plain.values()], ahead

        try:
            outcomes = self.store.write_each(collect, _TURN_SECONDS) if plain else []
        except BridgeError:
            return {}
        pairs = zip(plain.values(), outcomes, strict=True)
        answers: dict[int, bytes | None] = {
            id(entry): outcome for entry, outcome in pairs if isinstance(outcome, bytes)
        }
        self._meets_repeats = self._meets_repeats or len(answers) < len(plain)
        return answers

    def _take_from(self, waiting: deque[Waiting], batch: list[Waiting]) -> list[PlainRegistration]:
        """Moves to the batch what waits and has room in it, and returns that."""
        with self._taking:
            taken = [waiting.popleft() for _ in range(min(len(waiting), _MOST - len(batch)))]
            batch += taken
        return [entry for entry, _ in taken]

    def _drop_repeats(self, plain: dict[str, PlainRegistration]) -> dict[str, PlainRegistration]:
        """By subject, without the schemas that their subjects have already: those need no writer's turn."""
        contents = [(subject, value.understood.content.identity) for subject, value in plain.items()]
        try:
            with self.store.read(once=True) as tx:
                existing = tx.repeats(contents)
        except BridgeError:
            return {}
        self._meets_repeats = bool(existing)
        return {subject: plain[subject] for subject, identity in contents if (subject, identity) not in existing}

    def _register_schema(self, entry: PlainRegistration, tx: StoreWriter) -> bytes:
        request = entry.request
        token = REQUEST_ID.set(request.request_id)
        try:
            registry, subject = self._services.registry, request.subject
            registration = register_plain(
                registry, tx, subject, entry.new, entry.understood, normalize=request.normalize
            )
        finally:
            REQUEST_ID.reset(token)
        view = responses.SchemaView(self._services.profile, registration.stored.content.text)
        return compact(responses.registration(registration, view))


def answer_all(waiting: Iterable[Waiting], answers: Iterable[bytes | None]) -> None:
    for (_, future), answer in zip(waiting, answers, strict=False):
        if not future.done():  # the request, or we, may have given it up
            future.set_result(answer)
