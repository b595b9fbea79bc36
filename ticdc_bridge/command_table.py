"""The commands of `ticdc-bridge`, by what somebody wants to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SERVICE, JOBS, OWN = "service", "spark_jobs", "ticdc_bridge"
EXTRA: Final = {SERVICE: "service", JOBS: "spark"}
"""What `pip install 'ticdc-bridge[…]'` needs to be given for a program."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its name, the package that runs it, and what it is for, as a line of the help."""

    name: str
    package: str
    text: str


GROUPS: Final[dict[str, tuple[Command, ...]]] = {
    "Run the registry": (
        Command("serve", SERVICE, "serve the schema registry, the table histories and the pages"),
        Command("health", SERVICE, "check whether the service on this machine is ready"),
        Command("import", SERVICE, "import a registry from a topic, a dump or over REST"),
        Command("export", SERVICE, "export a registry to a topic, a dump or over REST"),
        Command("backup", SERVICE, "write a whole store to one file"),
        Command("restore", SERVICE, "fill an empty store from a backup"),
        Command("hash-password", SERVICE, "print a user's line for --auth-file"),
        Command("new-token", SERVICE, "print a new token and its line for --auth-file"),
        Command("check-acl", SERVICE, "check an ACL file, and who may do what"),
    ),
    "Look at tables and DDL": (
        Command("check-ddl", SERVICE, "check whether a DDL statement would stop the changefeed"),
        Command("doctor", SERVICE, "check a changefeed's settings for losses and errors"),
        Command("track", SERVICE, "follow a changefeed's DDL into a table history"),
        Command("history", SERVICE, "the versions of tables: diff, export, snapshot, replay, rebuild"),
    ),
    "Read and convert messages": (
        Command("decode", JOBS, "decode messages into JSON rows, or a table's columns"),
        Command("encode", JOBS, "encode JSON rows as messages of a format"),
        Command("transcode", JOBS, "convert messages from one format to another"),
        Command("explain", JOBS, "show one message field by field: bytes, types, values"),
        Command("verify", JOBS, "compare the events of two topics or files"),
        Command("replay", JOBS, "send messages from a dead letter queue again"),
    ),
    "Keep lake tables": (Command("merge", JOBS, "keep a lake table equal to TiDB's (CDC merge: upsert, delete, DDL)"),),
    "Set up and try": (
        Command("demo", JOBS, "run everything on this machine with sample TiCDC messages"),
        Command("package", JOBS, "write the zip and the script for spark-submit"),
        Command("completion", OWN, "print the completion script of bash, zsh or fish"),
    ),
}
COMMANDS: Final = {one.name: one for group in GROUPS.values() for one in group}
