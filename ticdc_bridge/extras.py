"""What to install where a package of others is missing."""

import sys

NAME = "ticdc_bridge"


def missing_package(error: ImportError, extra: str) -> str | None:
    """A sentence on the package (or extra) to install; None where the module is one of ours, or it is another error."""
    module = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or not module or module == NAME:
        return None
    if module in sys.stdlib_module_names:
        return f"this Python ({sys.executable}) lacks its own module {module}: use a complete installation of it"
    return f"the Python package {module} is not installed: in a clone of ticdc-bridge, pip install '.[{extra}]'"
