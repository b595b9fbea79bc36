"""Moving a registry from one place to another, comparing two, and what is said about it on stderr."""

import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ticdc_bridge.service.migration import endpoints
from ticdc_bridge.service.migration.endpoints import ConnectionOptions, Endpoint, RestEndpoint, endpoint_of, planner_of
from ticdc_bridge.service.migration.plan import compare
from ticdc_bridge.service.migration.progress import progress
from ticdc_bridge.service.migration.rest_reader import UNKNOWN_MARK
from ticdc_bridge.service.migration.snapshot import ReadResult, Snapshot, schema_comparison
from ticdc_bridge.service.registry.names import SERVER, context_of
from ticdc_bridge.service.server.logs import print_line
from ticdc_bridge.service.store import store_exists

SAYS_NO: Final = 1
_SHOWN: Final = 1000


@dataclass(frozen=True, slots=True)
class TransferOptions:
    """The options of a move. `reading` and `writing` say how the two places are reached; `counts` gets the outcome."""

    reading: ConnectionOptions = field(default_factory=ConnectionOptions)
    writing: ConnectionOptions = field(default_factory=ConnectionOptions)
    dry_run: bool = False
    skip_broken: bool = False
    overwrite_settings: bool = False
    no_modes: bool = False
    drop_rule_sets: bool = False
    counts: dict[str, Any] = field(default_factory=dict)


def move(what: str, source: str, target: str, options: TransferOptions) -> int:
    """Read the source, plan, write the target; the exit code. Raises SetupError."""
    with (
        progress(print_line) as report,
        endpoint_of(source, replace(options.reading, report=report), create=False) as origin,
        open_target(target, replace(options.writing, report=report), options) as destination,
    ):
        print_line(f"{what}: {origin.name} to {destination.name}" + (" (dry run)" if options.dry_run else ""))
        result = origin.read()
        print_read(result)
        options.counts.update({"versions": len(result.snapshot.versions), "broken": result.broken_count})
        if result.broken and not options.skip_broken:
            head = f"{result.broken_count} broken records, nothing was written (--skip-broken leaves them out):"
            print_list(head, result.broken)
            return SAYS_NO
        if result.broken:
            print_list(f"{result.broken_count} broken records left out:", result.broken)
        return write_and_report(what, destination, result, options)


def open_target(
    target: str, connection: ConnectionOptions, options: TransferOptions
) -> AbstractContextManager[Endpoint]:
    """The target; a dry run makes no store."""
    if options.dry_run and not store_exists(target):
        return nullcontext(endpoints.EmptyEndpoint(target))
    return endpoint_of(target, connection)


def write_and_report(what: str, target: Endpoint, source: ReadResult, options: TransferOptions) -> int:
    """Write, and say what came of it. The exit code."""
    leave_out(source.snapshot, options)
    planner = planner_of(source.snapshot, overwrite_settings=options.overwrite_settings)
    result = target.write(source.snapshot, planner, dry_run=options.dry_run)
    plan = result.plan
    options.counts.update({"changes": plan.changes, "written": result.done, "conflicts": len(plan.conflicts)})
    if plan.conflicts:
        by_kind: dict[str, list[str]] = {}
        for conflict in plan.conflicts:
            by_kind.setdefault(conflict.kind, []).append(conflict.what)
        for kind, some in by_kind.items():
            print_list(f"{len(some)} × {kind}:", some)
        print_line(f"{what}: {len(plan.conflicts)} conflicts; nothing was written")
        return SAYS_NO
    print_result(what, result, options)
    return SAYS_NO if source.broken else 0


def leave_out(source: Snapshot, options: TransferOptions) -> None:
    """Take from a source what the options say is not moved."""
    if options.no_modes:
        source.modes = {}
    if options.drop_rule_sets:
        for key, stored in source.versions.items():
            source.versions[key] = replace(stored, content=replace(stored.content, rule_set=None))


# ---- what is said


def print_read(result: ReadResult, label: str = "read") -> None:
    snapshot, subjects = result.snapshot, {subject for subject, _ in result.snapshot.versions}
    deleted = sum(stored.deleted for stored in snapshot.versions.values())
    ids = len({(context_of(stored.subject), stored.id) for stored in snapshot.versions.values()})
    print_line(
        f"{label}: {len(snapshot.versions)} versions ({deleted} soft-deleted) of {len(subjects)} subjects, "
        f"{ids} ids, {len(snapshot.configs)} configs, {len(snapshot.modes)} modes, {len(snapshot.contexts)} contexts"
    )
    if result.counted:
        print_line(f"{label}: {count_text(result.counted)}")
    if snapshot.marks:
        marks = sorted(snapshot.marks.items())
        print_line("highest id ever used: " + ", ".join(f"{number} in context {context}" for context, number in marks))
    if result.unknown:
        print_line("left out, for they mean nothing here: " + count_text(result.unknown))
    for reason, number in sorted(result.left_out.items()):
        print_line(f"left out: {number} × {reason}")


def print_result(what: str, result: endpoints.WriteResult, options: TransferOptions) -> None:
    plan = result.plan
    if result.unread:
        print_list(
            f"{len(result.unread)} versions have a schema that this registry can't read; they are kept and answered "
            "byte for byte, but nothing can be checked against them:",
            result.unread,
        )
    for note in result.notes:
        print_line(f"not carried over: {note}")
    present = f"{plan.same} versions and {plan.settings} configs and modes were there already"
    if not plan.changes:
        print_line(f"{what}: nothing to do; {present}")
    else:
        word = "would be written" if options.dry_run else "written"
        print_line(f"{what}: {word}: {count_text(plan.changes)}; {present}")


def count_text(numbers: dict[str, int] | Counter[str]) -> str:
    return ", ".join(f"{number} {what}" for what, number in numbers.items())


def print_list(title: str, lines: Iterable[str]) -> None:
    """A title and its lines, not too many of them."""
    lines = list(lines)
    print_line(title)
    for line in lines[:_SHOWN]:
        print(f"  {line}", file=sys.stderr)
    if len(lines) > _SHOWN:
        print(f"  … and {len(lines) - _SHOWN} more", file=sys.stderr)


_CANNOT_TELL: Final = 2


def verify(source: str, target: str, options: TransferOptions) -> int:
    """Compare two registries: counts by kind, and each difference by its name. Raises SetupError.

    Returns 0 if they are equal, 1 if they differ, 2 if what was compared is equal but something could not be read.
    """
    with (
        progress(print_line) as report,
        endpoint_of(source, replace(options.reading, report=report), create=False) as origin,
        endpoint_of(target, replace(options.writing, report=report), create=False) as destination,
    ):
        print_line(f"verify: {origin.name} and {destination.name}")
        # REST lists no settings of names without versions: they are asked for by the names that the other one has.
        if isinstance(destination, RestEndpoint):
            left = origin.read()
            right = destination.read(left.snapshot)
            left = origin.read(right.snapshot) if isinstance(origin, RestEndpoint) else left
        else:
            right = destination.read()
            left = origin.read(right.snapshot)
        print_read(left, "source")
        print_read(right, "target")
        return _report(
            left, right, options, over_rest=isinstance(origin, RestEndpoint) or isinstance(destination, RestEndpoint)
        )


def _report(source: ReadResult, target: ReadResult, options: TransferOptions, *, over_rest: bool) -> int:
    expected, found = source.snapshot, target.snapshot
    leave_out(expected, options)
    if options.no_modes:
        found.modes = {}
    unknown = [
        f"{number} × {reason}" for result in (source, target) for reason, number in sorted(result.left_out.items())
    ]
    unknown += [f"broken: {record}" for record in (*source.broken, *target.broken)]
    # Drop what one of them could not tell: it is no difference.
    unread = source.unread | target.unread
    for snapshot in (expected, found):
        snapshot.versions = {key: stored for key, stored in snapshot.versions.items() if key not in unread}
        if "/config" in unread:
            snapshot.configs = {scope: config for scope, config in snapshot.configs.items() if scope == SERVER}
        if "/mode" in unread:
            snapshot.modes = {scope: mode for scope, mode in snapshot.modes.items() if scope == SERVER}
    if over_rest:
        # REST tells the highest id only of contexts that have versions, and some servers tell none.
        unsure = expected.marks.keys() ^ found.marks.keys()
        if UNKNOWN_MARK in {*source.left_out, *target.left_out}:
            unsure |= expected.marks.keys()
        elif unsure:
            unknown.append(f"the highest id ever used in contexts without versions: {', '.join(sorted(unsure))}")
        for marks in (expected.marks, found.marks):
            for context in unsure:
                marks.pop(context, None)
    differences = 0
    for comparison in compare(expected, found, schema_comparison(expected, found)):
        differences += len(comparison.differences)
        counts = f"{comparison.kind}: {comparison.equal} equal, {len(comparison.differences)} different"
        print_list(f"{counts}:" if comparison.differences else counts, comparison.differences)
    options.counts.update({"different": differences, "not_compared": len(unknown)})
    if unknown:
        print_list("not compared:", unknown)
    if differences:
        print_line(f"verify: {differences} differences")
        return SAYS_NO
    print_line("verify: can't tell; what could be compared is equal" if unknown else "verify: equal")
    return _CANNOT_TELL if unknown else 0
