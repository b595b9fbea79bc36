"""What a changefeed's settings lose or break: the rules of `rules`, asked one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ticdc_bridge.service.changefeed.doctor_input import DoctorInput
from ticdc_bridge.service.changefeed.doctor_rules import RULES
from ticdc_bridge.service.changefeed.known_faults import faults
from ticdc_bridge.service.changefeed.setting_keys import lines_named
from ticdc_bridge.service.changefeed.settings import Severity

ORDER: Final = ("error", "warning", "info")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found."""

    id: str
    severity: Severity
    text: str
    fix: str
    source: str

    def form(self) -> dict[str, Any]:
        return {
            "id": self.id, "severity": self.severity, "text": self.text, "fix": self.fix, "source": self.source,
        }  # fmt: skip


def examine(patient: DoctorInput) -> list[Finding]:
    """All findings, the gravest first."""
    findings = [*_of_settings(patient), *_of_faults(patient)]
    for rule in RULES:
        answer = rule.when(patient)
        if not answer:
            continue
        what = (
            ""
            if answer is True
            else ", ".join(answer[:5]) + (f" and {len(answer) - 5} more" if len(answer) > 5 else "")
        )
        text, fix = rule.text.replace("{what}", what), rule.fix.replace("{what}", what)
        lines = lines_named(f"{text} {fix}", patient.feed.given)
        fix += f". Set now: {', '.join(lines)}" if lines else ""
        findings.append(Finding(rule.id, rule.severity, text, fix, rule.source))
    return sorted(findings, key=lambda f: ORDER.index(f.severity))


def _of_faults(patient: DoctorInput) -> Iterator[Finding]:
    for fault in faults(patient.protocol, patient.feed):
        version = f" ({fault.versions})"
        # Where nobody says which release runs, it may have the fix.
        severity: Severity = "warning" if patient.feed.ticdc_version or not fault.until else "info"
        yield Finding(fault.id, severity, fault.text + version, fault.fix, fault.source)


def _of_settings(patient: DoctorInput) -> Iterator[Finding]:
    for problem in patient.feed.problems:
        kind = "settings-refused" if problem.severity == "error" else "settings-odd"
        fix = problem.fix or "Correct it"
        fix += "; `cdc cli changefeed create` refuses it" if problem.severity == "error" else ""
        source = "ticdc pkg/config, pkg/sink/codec/common/config.go"
        yield Finding(kind, problem.severity, problem.text, fix, source)


def exit_code(findings: list[Finding], threshold: Severity = "warning") -> int:
    """1 for any finding as grave as the threshold, else 0."""
    return int(any(ORDER.index(f.severity) <= ORDER.index(threshold) for f in findings))
