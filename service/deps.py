"""What routes get: the registry (behind its ports) and the settings that shape answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastapi import Request

from service.history.derive import Derivations
from service.history.dry_run.ports import Subjects
from service.history.ports import History
from service.registry.core import Registry


@dataclass(frozen=True, slots=True)
class Services:
    """Put together by `app.create_app`; one for the life of the process."""

    registry: Registry
    profile: int
    max_body_bytes: int
    history: History
    subjects: Subjects
    derivations: Derivations = field(default_factory=Derivations)


def services(request: Request) -> Services:
    """The services of the app that serves this request."""
    found = request.app.state.services
    assert isinstance(found, Services)
    return found
