"""`python -m service`, and what `ticdc-bridge` calls for a command of the service."""

import sys
from collections.abc import Sequence

from ticdc_bridge.service.server import health


def main(words: Sequence[str], prog: str) -> int:
    """Runs a command. In: the words from the command on, the name that help shows. Out: the exit code."""
    if health.is_plain(words):  # asked every few seconds: without the rest of the command line
        return health.run(None)
    from ticdc_bridge.service import cli

    cli.main(words, prog)
    return 0


if __name__ == "__main__":
    from ticdc_bridge.main import run

    raise SystemExit(run("service", sys.argv[1:], "python -m service"))
