"""The commands of `ticdc-bridge`, by what somebody wants to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SERVICE, JOBS, OWN = "service", "spark_jobs", "ticdc_bridge"
EXTRA: Final = {SERVICE: "service", JOBS: "spark"}
"""What `pip install 'ticdc-bridge[…]'` needs to be given for a program."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its name, the package that runs it, its file and function (or class), and a line of the help."""

    name: str
    package: str
    target: str
    text: str

    @property
    def module(self) -> str:
        return f"ticdc_bridge.cli.{self.target.partition(':')[0]}"

    @property
    def attribute(self) -> str:
        return self.target.partition(":")[2]


GROUPS: Final[dict[str, tuple[Command, ...]]] = {
    "Run the registry": (
        Command("serve", SERVICE, "serve:serve", "serve the schema registry, the table histories and the pages"),
        Command("health", SERVICE, "health:health", "check whether the service on this machine is ready"),
        Command("import", SERVICE, "transfer:import_", "import a registry from a topic, a dump or over REST"),
        Command("export", SERVICE, "transfer:export", "export a registry to a topic, a dump or over REST"),
        Command("backup", SERVICE, "backup:backup", "write a whole store to one file"),
        Command("restore", SERVICE, "backup:restore", "fill an empty store from a backup"),
        Command("hash-password", SERVICE, "access:hash_password", "print a user's line for --auth-file"),
        Command("new-token", SERVICE, "access:new_token", "print a new token and its line for --auth-file"),
        Command("check-acl", SERVICE, "access:check_acl", "check an ACL file, and who may do what"),
    ),
    "Look at tables and DDL": (
        Command("check-ddl", SERVICE, "check_ddl:check_ddl", "check whether a DDL statement would stop the changefeed"),
        Command("doctor", SERVICE, "doctor:doctor", "check a changefeed's settings for losses and errors"),
        Command("track", SERVICE, "track:track", "follow a changefeed's DDL into a table history"),
        Command("history", SERVICE, "history:history", "versions of tables: diff, export, snapshot, replay, rebuild"),
    ),
    "Read and convert messages": (
        Command("decode", JOBS, "decode:Decode", "decode messages into JSON rows, or a table's columns"),
        Command("encode", JOBS, "encode:Encode", "encode JSON rows as messages of a format"),
        Command("transcode", JOBS, "transcode:Transcode", "convert messages from one format to another"),
        Command("explain", JOBS, "explain:Explain", "show one message field by field: bytes, types, values"),
        Command("verify", JOBS, "verify:Verify", "compare the events of two topics or files"),
        Command("replay", JOBS, "replay:Replay", "send messages from a dead letter queue again"),
    ),
    "Keep lake tables": (
        Command("merge", JOBS, "merge:Merge", "keep a lake table equal to TiDB's (CDC merge: upsert, delete, DDL)"),
    ),
    "Set up and try": (
        Command("demo", JOBS, "demo:Demo", "run everything on this machine with sample TiCDC messages"),
        Command("package", JOBS, "package:Package", "write the zip and the script for spark-submit"),
        Command("completion", OWN, "completion:completion", "print the completion script of bash, zsh or fish"),
    ),
}
COMMANDS: Final = {one.name: one for group in GROUPS.values() for one in group}
