"""Which Spark is installed, and which versions are supported (docs/columns.md); read without importing pyspark."""

import importlib.util
import re
from pathlib import Path

from ticdc_bridge.schemas.model.errors import SetupError

Version = tuple[int, int]

OLDEST: Version = (4, 0)
TRIED = ("4.0.5", "4.1.4", "4.2.1", "4.3.0")
"""What the tests run on; the first is the oldest, and the one of `make setup` is among them."""
PINNED: Version = (4, 1)
"""The version that `make setup` installs."""


def major_minor(text: str) -> Version | None:
    """(4, 1) of "4.1.4" or "4.1.0-SNAPSHOT"; None for what is no version."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def installed_version() -> str | None:
    """The version of the pyspark that Python would import; None where there is none, or it does not say."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    try:
        text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    except OSError:  # in a zip: the session will say
        return None
    match = re.search(r"""__version__[^=\n]*=\s*["']([^"']+)["']""", text)
    return match[1] if match else None


def check_spark_version(text: str | None = None) -> None:
    """SetupError USAGE for a Spark older than OLDEST. text: a session's version; None: that of the pyspark here."""
    here = installed_version() if text is None else text
    version = major_minor(here or "")
    if version is None or version >= OLDEST:
        return
    what = f"pyspark {here} is installed" if text is None else f"this session is of Spark {here}"
    details = (
        f"{what}: Spark 3 is not supported, Spark {OLDEST[0]}.{OLDEST[1]} or later is needed "
        f"(tested: {', '.join(TRIED)}). Install pyspark {TRIED[1]}, or use a cluster with Spark 4"
    )
    raise SetupError("USAGE", details=details)
