"""Become another user and run a command: PostgreSQL refuses to run as root.

Usage: python unprivileged.py UID GID COMMAND…
"""

import os
import sys


def main(arguments: list[str]) -> None:
    uid, gid, *command = arguments
    os.setgroups([])
    os.setgid(int(gid))
    os.setuid(int(uid))
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
