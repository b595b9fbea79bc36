"""A request is held while the store is away, instead of failing: TiCDC stops at the first answer that is not 200."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from fastapi import Request, Response
from fastapi.routing import APIRoute

from schemas.errors import RegistryError
from service.deps import services
from service.registry.patience import CURRENT, Outage, Patience, pauses

_WITH_BODY: Final = ("POST", "PUT")
_GRACE: Final = 0.5  # for what watches its own time, so that it can say why
_LEFT_BEHIND: Final[set[asyncio.Future[Any]]] = set()

T = TypeVar("T")
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Held(APIRoute):
    """A route whose requests are tried again, from the beginning, while the store raises Outage and there is time.

    Outage means that nothing was written, and no request has more than one write transaction, which is its last. A
    database that takes a request and never answers is given up when the time is over.
    """

    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()

        async def held(request: Request) -> Response:
            patience = CURRENT.get() or Patience(services(request).registry.store.wait_seconds)
            if request.method not in _WITH_BODY:
                patience.start()
            token = CURRENT.set(patience)
            try:
                return await tried(lambda: handler(request), patience)
            finally:
                CURRENT.reset(token)

        return held


async def tried(work: Callable[[], Coroutine[Any, Any, Response]], patience: Patience) -> Response:
    for pause in pauses():
        try:
            return await in_time(work(), patience)
        except Outage:
            if patience.left <= pause:
                raise
        await asyncio.sleep(pause)
    raise AssertionError("unreachable")


async def in_time(work: Coroutine[Any, Any, T], patience: Patience) -> T:
    """What `work` gives. Raises what it raises, and STORE_TIMEOUT when the time is over; `work` then goes on alone.

    A thread that waits for the database can't be stopped; what it finds out comes too late for this request.
    """
    task = asyncio.ensure_future(work)
    try:
        while True:
            done, _ = await asyncio.wait([task], timeout=patience.left + _GRACE)
            if done:
                return task.result()
            if patience.left == 0:
                break
    except asyncio.CancelledError:
        task.cancel()
        raise
    _LEFT_BEHIND.add(task)
    task.add_done_callback(_forget)
    raise RegistryError("STORE_TIMEOUT", operation="Store")


def _forget(task: asyncio.Future[Any]) -> None:
    _LEFT_BEHIND.discard(task)
    if not task.cancelled():
        task.exception()
