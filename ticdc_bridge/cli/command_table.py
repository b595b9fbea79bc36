"""The commands of `ticdc-bridge`, by what somebody wants to do."""

from dataclasses import dataclass
from typing import Final

SERVICE, JOBS, BRIDGE = "service", "spark_jobs", "ticdc_bridge"
EXTRA: Final = {SERVICE: "service", JOBS: "spark"}
"""The extra of ticdc-bridge that has the packages of a program."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its name, the package that runs it, its file and class, and a line of the help."""

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
        Command("serve", SERVICE, "serve:Serve", "serve the schema registry, the table histories and the pages"),
        Command("health", SERVICE, "health:Health", "check whether the service on this machine is ready"),
        Command("import", SERVICE, "transfer:Import", "import a registry from a topic, a dump or over REST"),
        Command("export", SERVICE, "transfer:Export", "export a registry to a topic, a dump or over REST"),
        Command("backup", SERVICE, "backup:Backup", "write a whole store to one file"),
        Command("restore", SERVICE, "backup:Restore", "fill an empty store from a backup"),
        Command("hash-password", SERVICE, "access:HashPassword", "print a user's line for --auth-file"),
        Command("new-token", SERVICE, "access:NewToken", "print a new token and its line for --auth-file"),
        Command("check-acl", SERVICE, "access:CheckAcl", "check an ACL file, and who may do what"),
    ),
    "Look at tables and DDL": (
        Command("check-ddl", SERVICE, "check_ddl:CheckDdl", "check whether a DDL statement would stop the changefeed"),
        Command("doctor", SERVICE, "doctor:Doctor", "check a changefeed's settings for losses and errors"),
        Command("track", SERVICE, "track:Track", "follow a changefeed's DDL into a table history"),
        Command("history", SERVICE, "history:history", "versions of tables: diff, export, snapshot, replay, rebuild"),
    ),
    "Read and convert messages": (
        Command("decode", JOBS, "jobs.decode:Decode", "decode messages into JSON rows, or a table's columns"),
        Command("encode", JOBS, "jobs.encode:Encode", "encode JSON rows as messages of a format"),
        Command("transcode", JOBS, "jobs.transcode:Transcode", "convert messages from one format to another"),
        Command("explain", JOBS, "jobs.explain:Explain", "show one message field by field: bytes, types, values"),
        Command("verify", JOBS, "jobs.verify:Verify", "compare the events of two topics or files"),
        Command("replay", JOBS, "jobs.replay:Replay", "send messages from a dead letter queue again"),
    ),
    "Keep lake tables": (
        Command("load", JOBS, "jobs.load:Load", "load the rows of a dump or a live TiDB into lake tables, at one TSO"),
        Command("merge", JOBS, "jobs.merge:Merge", "keep lake tables equal to TiDB's: upserts, deletes, DDL"),
        Command(
            "reconcile", JOBS, "jobs.reconcile:Reconcile", "find and mend rows of lake tables that differ from TiDB's"
        ),
        Command("at", JOBS, "jobs.at:At", "show how to read lake tables as they were at one time"),
        Command("maintain", JOBS, "jobs.maintain:Maintain", "compact lake tables and remove old versions"),
        Command("erase", JOBS, "jobs.erase:Erase", "remove the rows of one key from lake tables"),
    ),
    "Set up and try": (
        Command("demo", JOBS, "jobs.demo:Demo", "run everything on this machine with sample TiCDC messages"),
        Command("package", JOBS, "jobs.package:Package", "write the zip and the script for spark-submit"),
        Command("completion", BRIDGE, "completion:Completion", "print the completion script of bash, zsh or fish"),
    ),
}
COMMANDS: Final = {entry.name: entry for group in GROUPS.values() for entry in group}
