"""`/history/trackers`: the changefeeds that this service follows, and what a doctor finds in their settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastapi import Response

from ticdc_bridge.schemas.model.credentials import mask_credentials
from ticdc_bridge.service.api.routing import Called, Router
from ticdc_bridge.service.auth.acl import HISTORY
from ticdc_bridge.service.registry.overview import describe_subjects, find_subjects

if TYPE_CHECKING:
    from ticdc_bridge.service.changefeed.doctor_input import DoctorInput
    from ticdc_bridge.service.changefeed.settings import ChangefeedSettings

router = Router("/history")

_MOST_SUBJECTS: Final = 500
_MOST_TABLES: Final = 10_000


@router.declare("GET", "/trackers", needs=HISTORY)
def trackers(call: Called) -> Response:
    """Each with its progress; `findings` is null where the changefeed's own settings were not given."""
    with call.registry.store.read():
        known = {one.name for one in call.services.history.changefeeds()} if call.services.changefeeds else set()
        forms = [
            {**form, "findings": _find_faults(call, form["changefeed"], form["changefeed"] in known)}
            for form in call.services.trackers()
        ]
    return call.answer(forms)


def _find_faults(call: Called, name: str, is_known: bool) -> list[dict[str, Any]] | None:
    """The doctor's findings, the gravest first; credentials masked."""
    settings = call.services.changefeeds.get(name)
    if settings is None:
        return None
    from ticdc_bridge.service.changefeed.doctor import examine

    findings = examine(_doctor_input(call, name, settings, is_known))
    return [{key: mask_credentials(str(text)) for key, text in one.form().items()} for one in findings]


def _doctor_input(call: Called, name: str, settings: ChangefeedSettings, is_known: bool) -> DoctorInput:
    """What the registry, as the user sees it, and the history say about the changefeed."""
    from ticdc_bridge.service.changefeed.doctor_input import DoctorInput, SubjectFacts, topic_patterns

    tables = call.services.history.tables(name, limit=_MOST_TABLES) if is_known else []
    if not settings.uses_registry:
        return DoctorInput(settings, None, tuple(one.id for one in tables))
    pattern = topic_patterns(settings)
    names = [one for one in find_subjects(call.registry) if pattern.fullmatch(one)][:_MOST_SUBJECTS]
    # Where there are no subjects yet, the level that the first one would have.
    described = describe_subjects(call.registry, names or [f"{settings.topic or name}-value"])
    facts = tuple(SubjectFacts(one.subject, one.level, one.mode) for one in described)
    return DoctorInput(settings, facts, tuple(one.id for one in tables))
