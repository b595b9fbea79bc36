"""Formats and engines that other distributions add by entry points."""

from collections.abc import Container
from importlib.metadata import EntryPoint, entry_points

from ticdc_bridge.schemas.model.errors import SetupError


def plugins(group: str, taken: Container[str]) -> dict[str, EntryPoint]:
    """The entry points of a group, by name; nothing is imported.

    Args:
        group: `ticdc_bridge.formats` or `ticdc_bridge.engines`.
        taken: names that no plugin may have.

    Raises:
        SetupError: USAGE for a name that is taken, or that two plugins have.
    """
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        if entry.name in taken or (entry.name in found and found[entry.name].value != entry.value):
            reason = f"the plugin {entry.value} has a name that is taken, {entry.name}"
            raise SetupError("USAGE", details=f"{reason}: rename or uninstall it ({group})")
        found[entry.name] = entry
    return found
