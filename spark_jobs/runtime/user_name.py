"""A name for a user that has none: Hadoop, in Spark's JVM, does not start for a user id without an entry in passwd.

OpenShift gives containers such ids. `libnss_wrapper` (Debian's package libnss-wrapper) shows a process an entry from a
file of ours; the Spark image has it.
"""

import os
import pwd
from collections.abc import Callable
from pathlib import Path

from ticdc_bridge.schemas.model.errors import SetupError

_FOLDERS = ("/usr/lib", "/usr/lib64", "/lib")
_LIBRARY = "libnss_wrapper.so"
_NAME = "ticdc-bridge"


def variables_for_nameless_user(make_folder: Callable[[], Path]) -> dict[str, str]:
    """The variables that give this process's user a name; {} where it has one. SetupError USAGE: no nss_wrapper."""
    try:
        pwd.getpwuid(os.getuid())
        return {}
    except KeyError:
        pass
    library = next((path for folder in _FOLDERS for path in sorted(Path(folder).glob(f"**/{_LIBRARY}"))), None)
    if library is None:
        details = (
            f"user id {os.getuid()} has no name on this machine, and Spark needs one: add it to /etc/passwd, install "
            "libnss-wrapper, or run as a user that is there"
        )
        raise SetupError("USAGE", details=details)
    passwd = make_folder() / "passwd"
    home = os.environ.get("HOME", "/tmp")
    passwd.write_text(f"{_NAME}:x:{os.getuid()}:{os.getgid()}::{home}:/bin/sh\n", encoding="utf-8")
    preloaded = [str(library), *filter(None, [os.environ.get("LD_PRELOAD")])]
    return {
        "LD_PRELOAD": ":".join(preloaded), "NSS_WRAPPER_PASSWD": str(passwd), "NSS_WRAPPER_GROUP": "/etc/group"
    }  # fmt: skip
