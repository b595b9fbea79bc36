"""The one connection that writes: writers take turns in it, and those who wait share a commit.

A writer's work is a savepoint of the open transaction. Whoever finishes while another one waits leaves the commit to
that one and waits for it, so that one commit makes several writes durable.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry.deadline import seconds_left
from ticdc_bridge.service.registry.ports import ANYTHING, Collect, Listener, ReadAhead, ReadKey
from ticdc_bridge.service.store.dialects import Dialect, WriteSession
from ticdc_bridge.service.store.joint_transaction import JointTransaction
from ticdc_bridge.service.store.tables import LAYOUT
from ticdc_bridge.service.store.transaction import Transaction

_MOST: Final = 64

T = TypeVar("T")


@dataclass(slots=True)
class SharedTransaction:
    """A transaction that several writers share."""

    members: int = 0
    changes: set[ReadKey] = field(default_factory=set)
    done: bool = False
    error: BaseException | None = None


class WriteQueue:
    """`open_transaction` is a turn; `refresh` looks whether another process has written, as `WriteSession.look`."""

    def __init__(self, dialect: Dialect, wait_seconds: float) -> None:
        self.listeners: list[Listener] = []
        self._wait_seconds = wait_seconds
        self._session = dialect.write_session(self._forget)
        self.refresh = self._session.look
        self._turns = threading.Condition()
        self._busy = False
        self._waiting = 0
        self._shared: SharedTransaction | None = None

    @contextmanager
    def open_transaction(self) -> Iterator[Transaction]:
        """Raises RegistryError STORE_TIMEOUT, and what the database raises."""
        with self._turn(self._wait_seconds) as shared, self._open_transaction(shared) as transaction:
            yield transaction

    def run_each(self, collect: Collect[Transaction, T], wait_seconds: float) -> list[T | Exception]:
        """Every work in one turn, each apart: see `service.registry.ports.Store.write_each`."""
        with self._turn(wait_seconds) as shared:
            works, ahead = collect()
            try:
                return self._run_jointly(works, shared, ahead)
            except Exception:  # the database refused a row, or a work can't be undone alone
                if not self._session.is_alive():
                    raise
            outcomes: list[T | Exception] = []
            for function in works:
                try:
                    with self._open_transaction(shared) as transaction:
                        outcome: T | Exception = function(transaction)
                except Exception as error:
                    if not self._session.is_alive():
                        raise
                    outcome = error
                outcomes.append(outcome)
            return outcomes

    def _run_jointly(
        self, works: Sequence[Callable[[Transaction], T]], shared: SharedTransaction, ahead: ReadAhead
    ) -> list[T | Exception]:
        """All works as one part of the transaction. Raises what undoes all of them."""
        outcomes: list[T | Exception] = []
        changes: set[ReadKey] = set()
        with savepoint(self._session):
            transaction = JointTransaction(self._session, changes, ahead)
            for function in works:
                try:
                    outcomes.append(function(transaction))
                except Exception as error:
                    transaction.drop()
                    outcomes.append(error)
                else:
                    transaction.keep()
            transaction.write()
        shared.changes |= changes | ({ANYTHING} if changes else set())
        return outcomes

    @contextmanager
    def _open_transaction(self, shared: SharedTransaction) -> Iterator[Transaction]:
        """One writer's part of a shared transaction: all of it or, if it raises, nothing."""
        changes: set[ReadKey] = set()
        with savepoint(self._session):
            yield Transaction(self._session.connection, changes)
        shared.changes |= changes | ({ANYTHING} if changes else set())

    @contextmanager
    def _turn(self, wait_seconds: float) -> Iterator[SharedTransaction]:
        """A turn to write; what was done in it is durable afterwards."""
        shared = self._take_turn(seconds_left(wait_seconds))
        try:
            if shared.error is not None:
                raise shared.error
            yield shared
        except BaseException as error:
            if not self._session.is_alive():
                shared.error = error  # the database gave up the whole transaction, and so the others' part too
            raise
        finally:
            self._finish(shared)
        if shared.error is not None:
            raise shared.error

    def _take_turn(self, wait_seconds: float) -> SharedTransaction:
        deadline = time.monotonic() + wait_seconds
        with self._turns:
            self._waiting += 1
            has_turn = self._turns.wait_for(lambda: not self._busy, wait_seconds)
            self._waiting -= 1
            self._busy = True if has_turn else self._busy
            shared = self._shared
            if not has_turn:
                self._turns.notify_all()  # somebody may have left the commit to us
        if not has_turn:
            raise RegistryError("STORE_TIMEOUT", operation="Write", reason="the writers before it were not done")
        if shared is None:
            try:
                self._begin(max(deadline - time.monotonic(), 0))
            except BaseException:
                self._pass_on()
                raise
            shared = self._shared = SharedTransaction()
        shared.members += 1
        return shared

    def _finish(self, shared: SharedTransaction) -> None:
        """Commit, or leave it to the next one in the row; either way it is done when this returns."""
        with self._turns:
            if self._waiting and shared.members < _MOST:
                self._busy = False
                self._turns.notify_all()
                # The one who waited may give up instead of taking the turn; then the commit falls to one of us.
                self._turns.wait_for(lambda: shared.done or (not self._busy and not self._waiting))
                if shared.done:
                    return
                self._busy = True
        try:
            self._commit(shared)
        except BaseException as error:
            shared.error = error
        self._pass_on(shared)

    def _pass_on(self, shared: SharedTransaction | None = None) -> None:
        with self._turns:
            if shared is not None:
                shared.done, self._shared = True, None
            self._busy = False
            self._turns.notify_all()

    # ---- the database

    def _begin(self, wait_seconds: float) -> None:
        if self._session.begin(wait_seconds):
            self._forget()
        try:
            check_layout(self._session.layout)
        except BaseException:
            self._session.rollback()
            raise

    def _commit(self, shared: SharedTransaction) -> None:
        self._tell(lambda entry: entry.before_change(shared.changes))
        try:
            if shared.error is not None:
                self._session.rollback()
                raise shared.error
            self._session.commit()
        finally:
            self._tell(lambda entry: entry.after_change(shared.changes))

    def _forget(self) -> None:
        self._tell(lambda entry: entry.forget())

    def _tell(self, what: Callable[[Listener], None]) -> None:
        for listener in self.listeners:
            what(listener)

    def close(self) -> None:
        self._session.close()


@contextmanager
def savepoint(session: WriteSession) -> Iterator[None]:
    session.savepoint()
    try:
        yield
    except BaseException:
        if session.is_alive():
            session.undo()
        raise
    session.release()


def check_layout(layout: int | None) -> None:
    """Raises STORE_FAILED if a newer version has changed the layout while this process was running."""
    if layout != LAYOUT:
        details = (
            f"the store has layout {layout} now, and this process knows {LAYOUT}: it answers reads and refuses writes; "
            "restart it with the newer version"
        )
        raise RegistryError("STORE_FAILED", details=details)
