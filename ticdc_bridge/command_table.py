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
        Command("health", SERVICE, "is the service on this machine ready?"),
        Command("mirror", SERVICE, "follow another registry and compare every answer with it"),
        Command("import", SERVICE, "import a registry from a topic, a dump or over REST"),
        Command("export", SERVICE, "export a registry to a topic, a dump or over REST"),
        Command("backup", SERVICE, "write a whole store to one file"),
        Command("restore", SERVICE, "fill an empty store from such a file"),
        Command("hash-password", SERVICE, "make a user's line for --auth-file"),
        Command("new-token", SERVICE, "make a token and its line for --auth-file"),
        Command("check-acl", SERVICE, "check an ACL file, and what it allows whom"),
    ),
    "Look at tables and DDL": (
        Command("check-ddl", SERVICE, "would this DDL stop the changefeed?"),
        Command("doctor", SERVICE, "what a changefeed's settings lose or break"),
        Command("track", SERVICE, "follow a changefeed's DDL into a table history"),
        Command("history", SERVICE, "the versions of tables: diff, export, snapshot, replay, rebuild"),
    ),
    "Read and convert messages": (
        Command("decode", JOBS, "messages → change events in plain form, a JSON line each"),
        Command("encode", JOBS, "change events in plain form → messages of a format"),
        Command("transcode", JOBS, "messages of one format → messages of another"),
        Command("explain", JOBS, "one message, from its bytes to its values"),
        Command("verify", JOBS, "two topics or files: the same events?"),
        Command("replay", JOBS, "dead letters → the messages that failed, once more"),
    ),
    "Keep lake tables": (Command("merge", JOBS, "a changelog → a table of the lake as the table in TiDB is"),),
    "Set up and try": (
        Command("demo", JOBS, "real TiCDC messages: registry, Spark, Debezium, on this machine"),
        Command("package", JOBS, "the zip and the script that spark-submit needs"),
        Command("completion", OWN, "print the completion script of bash, zsh or fish"),
    ),
}
COMMANDS: Final = {one.name: one for group in GROUPS.values() for one in group}
