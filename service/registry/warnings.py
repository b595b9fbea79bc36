"""What was accepted, as Confluent accepts it, though readers may take one value for another.

Kept in the store with the version and logged when it is registered; gone with the version's permanent delete.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from service.registry.compat.logical import KIND, Change
from service.registry.core import Registry
from service.registry.model import Stored, Warned
from service.registry.ports import Writer

_LOG = logging.getLogger(__name__)


def of(registry: Registry, subject: str | None = None) -> list[Warned]:
    """The warnings about a subject, or about all, oldest first."""
    with registry.store.read() as tx:
        return tx.warnings(subject)


def warn(tx: Writer, stored: Stored, found: Sequence[Change]) -> None:
    """Keep and log the logical changes that a version brought."""
    for change in found:
        message = f"{change.path or 'the schema'}: {change.before} became {change.after}; {change.misread}"
        tx.put_warning(Warned(stored.subject, stored.version, KIND, message, stored.ts))
        _LOG.warning("subject %s version %d: %s", stored.subject, stored.version, message)
