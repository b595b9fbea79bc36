"""Our packages have plain names, `schemas`, `service`, `spark_jobs`: which file stands where ours should be.

Python takes the first package of a name on its path: a folder or file of the user's, or a package from an index, hides
ours. What comes then is an error about a module that nobody has heard of, so it is looked for first.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from typing import Final

NAMES: Final = ("schemas", "service", "spark_jobs", "ticdc_bridge")
MARK: Final = 'DISTRIBUTION = "ticdc-bridge"'
"""A line in the `__init__.py` of each of our packages."""
_OUR_FOLDER: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_INSTALLED: Final = ("site-packages", "dist-packages")


class ForeignPackageError(ImportError):
    """Another package stands where ours should be; the message says which file it is and what to do."""


def check_packages(*names: str) -> None:
    """Raises ForeignPackageError where Python would import one of these names from elsewhere than beside this package.

    Nothing is imported: Python looks for the package, as it does anyway, and the start of its file is read.
    """
    for name in names:
        spec = _spec_of(name)
        ours = os.path.join(_OUR_FOLDER, name, "__init__.py")
        place = _place_of(spec)
        if spec is None or place is None:
            raise ForeignPackageError(
                f"ticdc-bridge is not complete: its package {name} is not in {_OUR_FOLDER}. Install it again: "
                "pip install --force-reinstall --no-deps ticdc-bridge"
            )
        if not _same_file(place, ours):
            raise ForeignPackageError(f"{place} hides ticdc-bridge's package {name} ({ours}): {_advice(name, place)}")
        if not _has_mark(spec):
            raise ForeignPackageError(
                f"{place} is not ticdc-bridge's: another installed package named {name} has replaced it. "
                f"pip uninstall {name}, then pip install --force-reinstall --no-deps ticdc-bridge"
            )


def check_at_import(*names: str) -> None:
    """As check_packages, for a package's `__init__`. Under `python -m` the reason alone is printed; exit code 2."""
    try:
        check_packages(*names)
    except ForeignPackageError as error:
        if sys.argv[:1] != ["-m"]:  # what Python has there while it looks for the module that -m names
            raise
        print(f"ticdc-bridge: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _spec_of(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ValueError:  # a module without a spec, which a program has made and put into sys.modules
        return ModuleSpec(name, None, origin=f"a module {name} that a program has made")


def _place_of(spec: ModuleSpec | None) -> str | None:
    """The file that would be imported, or the folder of a package that has none; None for neither."""
    if spec is None:
        return None
    return spec.origin or next(iter(spec.submodule_search_locations or ()), None)


def _same_file(place: str, ours: str) -> bool:
    """Links are followed: installers link files from their caches."""
    return os.path.abspath(place) == ours or os.path.realpath(place) == os.path.realpath(ours)


def _has_mark(spec: ModuleSpec) -> bool:
    """Whether the source says that it is ours; where there is no source, only compiled code, the place has to do."""
    source = getattr(spec.loader, "get_source", lambda _: None)(spec.name)
    return source is None or MARK in source


def _advice(name: str, place: str) -> str:
    base = os.path.dirname(place) if os.path.basename(place) == "__init__.py" else place
    entry, what = os.path.dirname(base), os.path.basename(base)
    if any(f"{os.sep}{one}{os.sep}" in place for one in _INSTALLED):
        return f"pip uninstall {name}, or install ticdc-bridge in a virtual environment of its own"
    if os.path.realpath(entry) == os.path.realpath(os.getcwd()):
        return (
            f"rename {what}, start in another folder, or (unless PYTHONPATH names the folder) run the command "
            "ticdc-bridge, which does not look into the current folder"
        )
    return f"rename {what}, or take {entry} off Python's path (PYTHONPATH, or the folder that the script is in)"


def missing_package(error: ImportError, extra: str) -> str | None:
    """What to install where a package of others is missing; None where the module is one of ours.

    In: the error, and which of our extras brings what the program needs.
    """
    module = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or not module or module in NAMES:
        return None
    if module in sys.stdlib_module_names:
        return f"this Python ({sys.executable}) lacks its own module {module}: use a complete installation of it"
    return f"the Python package {module} is not installed: pip install 'ticdc-bridge[{extra}]'"


def looks_into_current_folder() -> bool:
    """Whether this process looks for modules in the folder it was started in, as `python -m` and notebooks do."""
    here = os.path.realpath(os.getcwd())
    return any(os.path.realpath(entry or ".") == here for entry in sys.path)
