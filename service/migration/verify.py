"""`import --verify`: does a target hold exactly what a source holds? Nothing is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ticdc_bridge.service.migration.endpoints import ReadResult, RestEndpoint, endpoint_of, schema_comparison
from ticdc_bridge.service.migration.plan import compare
from ticdc_bridge.service.migration.progress import progress
from ticdc_bridge.service.migration.rest_reader import UNKNOWN_MARK
from ticdc_bridge.service.migration.snapshot import Key, Snapshot
from ticdc_bridge.service.migration.transfer import SAYS_NO, TransferOptions, leave_out, print_list, tell_read
from ticdc_bridge.service.registry.names import SERVER
from ticdc_bridge.service.server.logs import print_line

_CANNOT_TELL: Final = 2


def verify(source: str, target: str, options: TransferOptions) -> int:
    """Compare two registries: counts by kind, and each difference by its name.

    Returns:
        0 if they are equal, 1 if they differ, 2 if what was compared is equal but something could not be read.

    Raises:
        SetupError: One of them can't be reached.
    """
    with (
        progress(print_line) as report,
        endpoint_of(source, replace(options.reading, report=report), create=False) as origin,
        endpoint_of(target, replace(options.writing, report=report), create=False) as destination,
    ):
        print_line(f"verify: {origin.name} and {destination.name}")
        # REST lists no settings of names without versions: they are asked for by the names that the other one has.
        if isinstance(destination, RestEndpoint):
            theirs = origin.read()
            ours = destination.read(theirs.snapshot)
            theirs = origin.read(ours.snapshot) if isinstance(origin, RestEndpoint) else theirs
        else:
            ours = destination.read()
            theirs = origin.read(ours.snapshot)
        tell_read(theirs, "source")
        tell_read(ours, "target")
        return _report(
            theirs, ours, options, over_rest=isinstance(origin, RestEndpoint) or isinstance(destination, RestEndpoint)
        )


def _report(source: ReadResult, target: ReadResult, options: TransferOptions, *, over_rest: bool) -> int:
    theirs, ours = source.snapshot, target.snapshot
    leave_out(theirs, options)
    if options.no_modes:
        ours.modes = {}
    unknown = [
        f"{number} × {reason}" for result in (source, target) for reason, number in sorted(result.left_out.items())
    ]
    unknown += [f"broken: {record}" for record in (*source.broken, *target.broken)]
    _forget_unread(theirs, ours, source.unread | target.unread)
    if over_rest:
        # REST tells the highest id only of contexts that have versions, and some servers tell none.
        unsure = theirs.marks.keys() ^ ours.marks.keys()
        if UNKNOWN_MARK in {*source.left_out, *target.left_out}:
            unsure |= theirs.marks.keys()
        elif unsure:
            unknown.append(f"the highest id ever used in contexts without versions: {', '.join(sorted(unsure))}")
        for marks in (theirs.marks, ours.marks):
            for context in unsure:
                marks.pop(context, None)
    differences = 0
    for found in compare(theirs, ours, schema_comparison(theirs, ours)):
        differences += len(found.differences)
        counts = f"{found.kind}: {found.equal} equal, {len(found.differences)} different"
        print_list(f"{counts}:" if found.differences else counts, found.differences)
    if unknown:
        print_list("not compared:", unknown)
    if differences:
        print_line(f"verify: {differences} differences")
        return SAYS_NO
    print_line("verify: can't tell; what could be compared is equal" if unknown else "verify: equal")
    return _CANNOT_TELL if unknown else 0


def _forget_unread(source: Snapshot, target: Snapshot, unread: set[Key | str]) -> None:
    """Drop what one of them could not tell: it is no difference."""
    for snapshot in (source, target):
        snapshot.versions = {key: stored for key, stored in snapshot.versions.items() if key not in unread}
        if "/config" in unread:
            snapshot.configs = {scope: config for scope, config in snapshot.configs.items() if scope == SERVER}
        if "/mode" in unread:
            snapshot.modes = {scope: mode for scope, mode in snapshot.modes.items() if scope == SERVER}
