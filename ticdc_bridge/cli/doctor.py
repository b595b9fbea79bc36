"""`doctor`: check a changefeed's settings for losses and errors, each with its reason and fix."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from ticdc_bridge.cli.options import DEFINITIONS, INPUT, ChangefeedOptions, check_zone, format_out, login, option
from ticdc_bridge.cli.output import ServiceCommand
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.reasons import counted

if TYPE_CHECKING:
    from ticdc_bridge.clients.http import HttpClient
    from ticdc_bridge.schemas.model.table import TableId
    from ticdc_bridge.service.changefeed.doctor import DoctorInput, Finding
    from ticdc_bridge.service.changefeed.settings import ChangefeedSettings

_MOST_SUBJECTS: Final = 500
_ANNOTATIONS: Final = {"error": "error", "warning": "warning", "info": "notice"}


@dataclass(kw_only=True)
class Doctor(ChangefeedOptions, ServiceCommand):
    """Read a changefeed's settings and say what will be lost or break.

    error: TiCDC refuses it or stops, or values change unseen. warning: something is lost, or readers must know it.
    info: good to know. Exit code 0: no error, no warning. 1: there is one (--fail-on). 2: settings that can't be read.

    Examples:
      ticdc-bridge doctor --sink-uri "kafka://127.0.0.1:9092/t?protocol=avro" --config changefeed.toml
    """

    registry: str | None = option(
        DEFINITIONS,
        "URL",
        "A registry whose compatibility levels and modes are checked, too.",
        "--registry",
        "--service",
    )
    time_zone: str = option(INPUT, "ZONE", "Time zone of TiCDC's servers, if readers know it.", default="")
    format: Literal["text", "json", "github"] = format_out("text, json, or github: annotations.")
    fail_on: Literal["error", "warning", "info"] = option(
        None, None, "The lowest severity that gives exit code 1.", default="warning"
    )

    def run(self) -> int:
        from ticdc_bridge.clients.http import HttpClient
        from ticdc_bridge.service.changefeed.doctor import DoctorInput, examine, exit_code
        from ticdc_bridge.service.changefeed.reader import read_files

        if not self.sink_uri and not self.config:
            raise SetupError("USAGE", details="give --sink-uri, --config or both")
        check_zone("--time-zone", self.time_zone or None)
        feed = read_files(
            self.sink_uri, self.config, time_zone=self.time_zone, schema_registry=self.schema_registry,
            ticdc_version=self.ticdc_version,
        )  # fmt: skip
        patient = DoctorInput(feed)
        if self.registry:
            patient = _ask_registry(HttpClient(self.registry, login=login(wait=0.0)), feed)
        findings = examine(patient)
        for line in _SHOW[self.format](findings, patient, self.config or ""):
            print(line)
        return exit_code(findings, self.fail_on)


def _ask_registry(remote: HttpClient, feed: ChangefeedSettings) -> DoctorInput:
    """What a registry says about the changefeed's subjects."""
    from ticdc_bridge.service.changefeed.doctor import DoctorInput, SubjectFacts, topic_patterns

    pattern = topic_patterns(feed)
    names = [s for s in remote.need(list, "/subjects") if isinstance(s, str) and pattern.fullmatch(s)]
    facts = []
    for name in names[:_MOST_SUBJECTS]:
        path = f"{quote(name, safe='')}?defaultToGlobal=true"
        config, mode = remote.need(dict, f"/config/{path}"), remote.need(dict, f"/mode/{path}")
        facts.append(SubjectFacts(name, str(config.get("compatibilityLevel", "")), str(mode.get("mode", ""))))
    left = len(names) - len(facts)
    notes = (f"{left} subjects were not looked at: the first {_MOST_SUBJECTS} were",) if left else ()
    if not names:
        level = str(remote.need(dict, "/config").get("compatibilityLevel", ""))
        facts = [SubjectFacts("the server's default", level)]
        notes = ("none of the registry's subjects is of this changefeed; its default level is taken",)
    return DoctorInput(feed, tuple(facts), tuple(_tables(remote)), notes)


def _tables(remote: HttpClient) -> Iterator[TableId]:
    """Known tables, of a service that tracks a history; other registries have none."""
    from ticdc_bridge.schemas.model.table import TableId

    offset: int | None = 0
    while offset is not None:
        try:
            page = remote.need(dict, f"/history/tables?offset={offset}")
        except SetupError:
            return
        rows = page.get("tables")
        following = page.get("next_offset") if rows else None
        offset = following if isinstance(following, int) and following > offset else None
        for row in rows or ():
            if isinstance(row, dict) and isinstance(row.get("db"), str) and isinstance(row.get("table"), str):
                yield TableId(row["db"], row["table"])


# ---- how it is shown
def _text(findings: list[Finding], patient: DoctorInput, _: str) -> Iterator[str]:
    for finding in findings:
        yield f"{finding.severity.upper()} {finding.id}: {finding.text}"
        yield f"  fix: {finding.fix}"
        yield f"  source: {finding.source}"
    yield from (f"note: {note}" for note in patient.notes)
    yield f"doctor: {_count_text(findings)}"


def _json(findings: list[Finding], patient: DoctorInput, _: str) -> Iterator[str]:
    from ticdc_bridge.service.changefeed.doctor import exit_code

    form: dict[str, Any] = {
        "protocol": patient.feed.protocol or None,
        "healthy": not exit_code(findings),
        "findings": list(map(asdict, findings)),
        "notes": list(patient.notes),
    }
    yield json.dumps(form, ensure_ascii=False)


def _github(findings: list[Finding], patient: DoctorInput, file: str) -> Iterator[str]:
    from ticdc_bridge.service.ddl_check.report import annotation

    for finding in findings:
        yield annotation(
            _ANNOTATIONS[finding.severity], file, 1, f"doctor: {finding.id}", f"{finding.text}. Fix: {finding.fix}"
        )
    yield from (annotation("notice", "", None, "doctor", note) for note in patient.notes)
    yield f"doctor: {_count_text(findings)}"


def _count_text(findings: list[Finding]) -> str:
    words = {"error": "error", "warning": "warning", "info": "note"}
    return ", ".join(counted(sum(f.severity == s for f in findings), word) for s, word in words.items())


_SHOW: Final = {"text": _text, "json": _json, "github": _github}
