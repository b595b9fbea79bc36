"""New schemas round the router: those that wait are registered by one thread, in one transaction with one commit.

The event loop collects what comes while that thread is at work and then hands it over as the next batch, and gets all
its answers at once; so neither threads nor commits grow with the number of writers. Only what is plain goes this way:
a new text under a simple name, which `register.register_plain` takes. All else is left to the app, errors too; so is
what a store in trouble does not take soon, because the app knows how long a request may wait.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Final

from schemas.model.errors import BridgeError
from service.api import responses
from service.api.bodies import SCHEMA, check_size, new_schema, parse, read_fields
from service.api.request import check_content_type, compact, negotiate
from service.api.services import Services
from service.logs import REQUEST_ID
from service.registry.config import config_chain
from service.registry.model import Content, NewSchema
from service.registry.names import normalize_subject
from service.registry.ports import ReadAhead, StoreWriter
from service.registry.references import UnderstoodSchema, understand
from service.registry.register import RegisterOptions, register_plain

ROUTE: Final = "/subjects/{subject}/versions"
_PATH = re.compile(rb"/subjects/([A-Za-z0-9_-][A-Za-z0-9_.~-]*)/versions")
_QUERY = re.compile(rb"(?:normalize=(?:(true)|false))?", re.IGNORECASE)
_LONGEST_BODY: Final = 64 * 1024
_MOST: Final = 64
_TURN_SECONDS: Final = 1.0
_PATIENCE: Final = 5.0


@dataclass(frozen=True, slots=True)
class RegistrationAnswer:
    """A 200."""

    media_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class PendingRegistration:
    """A request to register a schema, as far as the event loop looks at it."""

    subject: str
    wish: RegisterOptions
    media_type: str
    body: bytes
    request_id: str


@dataclass(frozen=True, slots=True)
class PlainRegistration:
    """A request that may be answered here, and what its schema is."""

    request: PendingRegistration
    new: NewSchema
    understood: UnderstoodSchema

    @property
    def content(self) -> Content:
        return self.understood.content


Waiting = tuple[PendingRegistration, asyncio.Future[RegistrationAnswer | None]]


class RegistrationBatcher:
    """One for an app. The event loop's thread alone touches what is waiting, so no lock is needed."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.store = services.registry.store
        self._thread = ThreadPoolExecutor(1, "registrations")
        self._waiting: deque[Waiting] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop that the batch at work was taken from; None when there is none."""
        self._late: asyncio.TimerHandle | None = None
        self._stuck = False

    def parse_request(
        self, path: bytes, query: bytes, accept: bytes | None, content_type: bytes | None, body: bytes, request_id: str
    ) -> PendingRegistration | None:
        """What a POST asks for, if it may go this way."""
        path_match, flags = _PATH.fullmatch(path), _QUERY.fullmatch(query)
        if path_match is None or flags is None or len(body) > min(_LONGEST_BODY, self._services.max_body_bytes):
            return None
        try:
            check_content_type(None if content_type is None else content_type.decode("latin-1"))
            media_type = negotiate(None if accept is None else accept.decode("latin-1"))
        except BridgeError:
            return None
        return PendingRegistration(
            normalize_subject(path_match[1].decode()), RegisterOptions(bool(flags[1])), media_type, body, request_id
        )

    async def register(self, request: PendingRegistration) -> RegistrationAnswer | None:
        """The answer, when what it says is durable; None if the app has to answer."""
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop:  # that one has ended
            self._waiting.clear()
            self._loop, self._stuck = None, False
        if self._stuck:
            return None
        answer: asyncio.Future[RegistrationAnswer | None] = loop.create_future()
        self._waiting.append((request, answer))
        if self._loop is None:
            self._hand_over(loop)
        return await answer

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MOST))]
        self._loop = loop
        self._late = loop.call_later(min(_PATIENCE, self.store.wait_seconds), self._give_up, batch)
        self._thread.submit(self._work, loop, batch)

    def _give_up(self, batch: list[Waiting]) -> None:
        """The thread hangs, perhaps in a database that does not answer: until it is back, nobody waits for it."""
        self._stuck = True
        answer_all((*batch, *self._waiting), repeat(None))
        self._waiting.clear()

    def _work(self, loop: asyncio.AbstractEventLoop, batch: list[Waiting]) -> None:
        """In the thread."""
        answers: list[RegistrationAnswer | None] = [None] * len(batch)
        try:
            answers = self._answers([request for request, _ in batch])
        finally:
            loop.call_soon_threadsafe(self._take, loop, batch, answers)

    def _take(
        self, loop: asyncio.AbstractEventLoop, batch: list[Waiting], answers: list[RegistrationAnswer | None]
    ) -> None:
        if self._late is not None:
            self._late.cancel()
        answer_all(batch, answers)
        self._loop, self._stuck = None, False
        if self._waiting:
            self._hand_over(loop)

    # ---- in the thread

    def _answers(self, batch: list[PendingRegistration]) -> list[RegistrationAnswer | None]:
        answers: dict[int, RegistrationAnswer | None] = {}
        plain = self._drop_repeats([one for request in batch if (one := self._read(request)) is not None])
        scopes = dict.fromkeys(scope for one in plain for scope in config_chain(one.request.subject))
        ahead = ReadAhead([one.request.subject for one in plain], [*scopes], [one.content for one in plain])
        works = [partial(self._register_one, one) for one in plain]
        try:
            outcomes: Sequence[RegistrationAnswer | Exception] = (
                self.store.write_each(works, _TURN_SECONDS, ahead) if works else ()
            )
        except BridgeError:
            return [None] * len(batch)
        for one, outcome in zip(plain, outcomes, strict=True):
            answers[id(one.request)] = outcome if isinstance(outcome, RegistrationAnswer) else None
        return [answers.get(id(request)) for request in batch]

    def _drop_repeats(self, plain: list[PlainRegistration]) -> list[PlainRegistration]:
        """Without the schemas that their subjects have: those need no writer's turn, and the app keeps its answer.

        Of each subject one alone: what comes at the same time is a repeat, or has to be compared with it.
        """
        subjects = {one.request.subject: one for one in reversed(plain)}
        contents = [(subject, one.content.identity) for subject, one in subjects.items()]
        try:
            with self.store.read(once=True) as tx:
                there = tx.repeats(contents)
        except BridgeError:
            return []
        return [one for one, content in zip(subjects.values(), contents, strict=True) if content not in there]

    def _read(self, request: PendingRegistration) -> PlainRegistration | None:
        """The schema of a request that sends nothing but its text; understood already, so that the turn is short."""
        try:
            value = parse(request.body)
            if not isinstance(value, dict):
                return None
            fields = read_fields(SCHEMA, value)
            check_size(fields, self._services)
            new = new_schema(fields)
            if not new.text.strip() or new != NewSchema(new.text, new.kind):
                return None
            return PlainRegistration(request, new, understand(self._services.registry, new))
        except (ValueError, RecursionError, BridgeError):
            return None

    def _register_one(self, one: PlainRegistration, tx: StoreWriter) -> RegistrationAnswer:
        request = one.request
        token = REQUEST_ID.set(request.request_id)
        try:
            registration = register_plain(
                self._services.registry, tx, request.subject, one.new, request.wish, one.understood
            )
        finally:
            REQUEST_ID.reset(token)
        view = responses.SchemaView(self._services.profile, registration.stored.content.text)
        return RegistrationAnswer(request.media_type, compact(responses.registration(registration, view)))


def answer_all(waiting: Iterable[Waiting], answers: Iterable[RegistrationAnswer | None]) -> None:
    for (_, future), answer in zip(waiting, answers, strict=False):
        if not future.done():  # the request, or we, may have given it up
            future.set_result(answer)
