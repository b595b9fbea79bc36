"""`check-ddl`: what would a DDL statement do to the changefeed? For people, and for CI."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ticdc_bridge.cli.options import (
    CHANGEFEED,
    DDL_ZONE,
    DEFINITIONS,
    INPUT,
    ChangefeedOptions,
    argument,
    check_zone,
    flag,
    format_out,
    login,
    option,
)
from ticdc_bridge.cli.output import ServiceCommand, exit_with
from ticdc_bridge.schemas.model.credentials import mask_credentials
from ticdc_bridge.schemas.model.errors import BridgeError, SetupError
from ticdc_bridge.schemas.model.reasons import usage_errors

if TYPE_CHECKING:
    from ticdc_bridge.schemas.ddl.executor.versions import DdlText
    from ticdc_bridge.service.ddl_check.request import CheckRequest
    from ticdc_bridge.service.ddl_check.trial import Trial

_MAX_SQL = 16 << 20
_DEFAULT_SERVICE = "http://127.0.0.1:8081"
_SHOWN_SQL = 120  # characters of the statement in a command that is shown


@dataclass(kw_only=True)
class CheckDdl(ChangefeedOptions, ServiceCommand):
    """Say what DDL would do to the changefeed, before TiDB runs it.

    Each statement is checked after the effects of those before it. Exit code 0: all are safe. 1: one would stop the
    changefeed. 3: one can't be judged, or TiDB itself refuses it, and none would stop the changefeed. 2: wrong usage,
    or a source that can't be read.

    The tables and registered schemas are those of the running service (--registry); or of a --store; or of table
    definitions (--ddl), which may be a live TiDB.

    Examples:
      ticdc-bridge check-ddl "ALTER TABLE shop.orders ADD note TEXT"
      ticdc-bridge check-ddl --db shop --in migration.sql --ddl mysql://root@tidb:4000/shop
    """

    sql: list[str] | None = argument("SQL", "One or more statements, quoted; - is standard input.")
    file: str | None = option(INPUT, "FILE", "A file of statements, instead of SQL.", "--in", "--file")
    db: str = option(INPUT, "DATABASE", "The database of unqualified table names.", default="")
    registry: str | None = option(
        DEFINITIONS, "URL",
        f"The running service: its registry and its history. [BRIDGE_REGISTRY, {_DEFAULT_SERVICE}]",
        "--registry", "--service",
    )  # fmt: skip
    store: str | None = option(DEFINITIONS, "URL", "The service's store, read directly: sqlite:///PATH.")
    ddl: str | None = option(
        DEFINITIONS, "SOURCE",
        "Table definitions: a file (JSON lines of DDL, or SQL), a folder (dumpling's), or a live TiDB: "
        "mysql://USER@HOST:4000/DB.",
    )  # fmt: skip
    schemas: str | None = option(DEFINITIONS, "FILE", "With --ddl: registered schemas, JSON lines or a meta.json.")
    compatibility: str = option(DEFINITIONS, "LEVEL", "With --schemas: the level of all subjects.", default="BACKWARD")
    at: str | None = option(
        INPUT, "TSO|TIME", "Check against the tables at this time: a commit_ts or an RFC 3339 time."
    )
    changefeed: str | None = option(DEFINITIONS, "NAME", "The tracked changefeed whose history is used.")
    keyspace: str = option(CHANGEFEED, "NAME", "TiCDC's keyspace (namespace), part of Avro names.", default="default")
    ddl_time_zone: str | None = DDL_ZONE
    sql_mode: str = option(None, "MODES", "The sql_mode in which the SQL is typed.", default="")
    wire: bool = flag(None, "--wire", "The SQL is as TiCDC sends it, not as it is typed.")
    try_: str | None = option(
        None, "URL",
        "A TiDB to run the statements in a scratch database: mysql://USER@HOST:4000. [BRIDGE_TIDB_PASSWORD]", "--try",
    )  # fmt: skip
    format: Literal["text", "json", "github"] = format_out("text, json, or github: annotations and a job summary.")

    def run(self) -> int:
        from ticdc_bridge.service.ddl_check.report import EXIT

        text, name = _statements(self.sql, self.file)
        try:
            form = self._answer(text)
        except BridgeError as error:
            exit_with(f"{error.detail}{_other_ways(self.sql) if error.code == 'REGISTRY_UNREACHABLE' else ''}")
        _show(form, self.format, name)
        return EXIT[form["verdict"]]

    def _answer(self, text: str) -> dict[str, Any]:
        from ticdc_bridge.service.changefeed.reader import read_files
        from ticdc_bridge.service.ddl_check.request import CheckRequest
        from ticdc_bridge.service.history.model import tso_of

        request: dict[str, Any] = {
            "sql": text, "db": self.db, "sql_mode": self.sql_mode, "wire": self.wire,
            "at": tso_of(self.at) if self.at else None,
            "zone": check_zone("--ddl-time-zone", self.ddl_time_zone), "history": self.changefeed,
        }  # fmt: skip
        feed = {
            "sink_uri": self.sink_uri, "config": self.config, "keyspace": self.keyspace,
            "schema_registry": self.schema_registry, "ticdc_version": self.ticdc_version,
        }  # fmt: skip
        sources = {"--registry": self.registry, "--store": self.store, "--ddl": self.ddl}
        if len(used := [name for name, value in sources.items() if value]) > 1:
            ways = "--registry URL, --store URL or --ddl SOURCE"
            raise SetupError("USAGE", details=f"the tables come from one place: {ways}, not {' and '.join(used)}")
        if self.schemas and not self.ddl:
            raise SetupError("USAGE", details="--schemas FILE goes with --ddl SOURCE")
        if self.store or self.ddl:
            with self._open_local() as answer:
                form: dict[str, Any] = answer(CheckRequest(**request, changefeed=read_files(**feed)))
                return form
        if self.try_:
            raise SetupError("USAGE", details="--try needs the tables here: give --ddl SOURCE or --store URL")
        return _ask_service(self.registry, request, feed)

    @contextmanager
    def _open_local(self) -> Iterator[Any]:
        """A function from a question to the JSON form of its answer."""
        from ticdc_bridge.schemas.inputs.table_sources import definition_source, read_statements
        from ticdc_bridge.service.ddl_check.request import answer_request, catalog_of, run_check
        from ticdc_bridge.service.ddl_check.subjects import ListedSchemas
        from ticdc_bridge.service.registry.registry import Registry
        from ticdc_bridge.service.registry.view import RegistryView
        from ticdc_bridge.service.schema_types.base import LEVELS
        from ticdc_bridge.service.store import open_store, store_exists
        from ticdc_bridge.service.store.history_store import HistoryStore

        if self.store:
            if not store_exists(self.store):  # opening one makes it: a command that only reads must not
                raise SetupError("USAGE", details=f"--store {self.store}: there is no such file")
            with closing(open_store(self.store)) as opened, _open_trial(self.try_, ()) as trial:
                view, history = RegistryView(Registry(opened)), HistoryStore(opened)
                yield lambda request: answer_request(request, view, history, trial).form()
            return
        level = self.compatibility.upper()
        if level not in LEVELS:
            raise SetupError("USAGE", details=f"--compatibility {level}: one of {', '.join(LEVELS)}")
        statements = read_statements(definition_source(str(self.ddl)), self.db).statements
        listed = ListedSchemas.of_entries(_parse_schemas(self.schemas) if self.schemas else (), LEVELS[level])

        def answer(request: CheckRequest) -> dict[str, Any]:
            before = [statement for statement in statements if request.at is None or statement.commit_ts <= request.at]
            with _open_trial(self.try_, before) as trial:
                return run_check(
                    request, catalog_of(before), listed, lambda _: "", assume=self.schemas is None, trial=trial
                ).form()

        yield answer


def _other_ways(sql: list[str] | None) -> str:
    """What to do where no service answers, with commands that work."""
    text = " ".join(sql or ())
    statement = shlex.quote(text if text and len(text) <= _SHOWN_SQL else "ALTER TABLE shop.orders …")
    return (
        "\nStart the service, name it by --registry URL or BRIDGE_REGISTRY, or do without it:\n"
        f"  ticdc-bridge check-ddl --ddl mysql://HOST:4000/DB {statement}\n"
        f"  ticdc-bridge check-ddl --ddl tables.sql {statement}"
    )


def _statements(sql: list[str] | None, file: str | None) -> tuple[str, str]:
    """The text, and the file's name for annotations."""
    if (not sql) == (file is None):
        example = 'ticdc-bridge check-ddl "ALTER TABLE shop.orders ADD note TEXT"'
        details = f"give the SQL or --in FILE, one of them: {example}, or ticdc-bridge check-ddl --in migration.sql"
        raise SetupError("USAGE", details=details)
    if sql and len(sql) > 1:
        quoted = shlex.quote(" ".join(sql))
        raise SetupError("USAGE", details=f"the SQL is one word for the shell: ticdc-bridge check-ddl {quoted}")
    if sql and sql != ["-"]:
        return sql[0], ""
    where = file or "standard input"
    try:
        with nullcontext(sys.stdin.buffer) if file in (None, "-") else open(file or "", "rb") as source:
            data = source.read(_MAX_SQL + 1)
        if len(data) > _MAX_SQL:
            raise SetupError("USAGE", details=f"{where} has more than {_MAX_SQL} bytes")
        return data.decode("utf-8-sig"), file or ""
    except OSError as error:
        raise SetupError("USAGE", details=f"{where}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise SetupError("USAGE", details=f"{where}: no UTF-8 text") from None


# ---- where the answer comes from
def _ask_service(registry: str | None, request: dict[str, Any], feed: dict[str, str | None]) -> dict[str, Any]:
    """The service's own answer; that of BRIDGE_REGISTRY or of this machine where none is named."""
    from ticdc_bridge.clients.http import HttpClient
    from ticdc_bridge.service.changefeed.reader import read_config
    from ticdc_bridge.service.ddl_check import report
    from ticdc_bridge.service.ddl_check.report import EXIT

    settings: dict[str, Any] = {
        name: feed[name] for name in ("sink_uri", "keyspace", "schema_registry", "ticdc_version") if feed[name]
    }
    if feed["config"]:
        settings["config"] = read_config(feed["config"])
    if request["history"]:
        settings["name"] = request["history"]
    body = {**request, "ddl_time_zone": request["zone"], "changefeed": settings}
    asked = {k: v for k, v in body.items() if k not in ("zone", "history")}
    url = registry or os.environ.get("BRIDGE_REGISTRY") or _DEFAULT_SERVICE
    remote = HttpClient(url, login=login(wait=0.0))
    answer = remote.need(dict, "/history/dry-run", "POST", asked)
    if answer.get("verdict") not in EXIT:
        raise remote.refused("POST /history/dry-run", "an answer of another kind")
    for form in (answer, *report.statements(answer)):
        for entry in form.get("advice", ()):
            entry["commands"] = [c.replace(" $REGISTRY/", f" {remote.name}/") for c in entry["commands"]]
    return answer


@contextmanager
def _open_trial(url: str | None, definitions: Sequence[DdlText]) -> Iterator[Trial | None]:
    """The TiDB of --try. definitions: the statements that the tables come from."""
    from ticdc_bridge.schemas.inputs.live_tables import server_address
    from ticdc_bridge.schemas.inputs.table_sources import mysql_client
    from ticdc_bridge.service.ddl_check.trial import open_trial

    if url is None:
        yield None
        return
    try:
        address, client = server_address(url), mysql_client()
    except ValueError as error:
        raise SetupError("USAGE", details=f"--try {mask_credentials(url)}: {error}") from None
    with open_trial(address, client, definitions) as trial:
        yield trial


def _parse_schemas(path: str) -> Any:
    from ticdc_bridge.schemas.inputs.schema_files import registered_schemas

    with usage_errors(f"--schemas {path}", OSError, ValueError):
        return registered_schemas(Path(path).read_text(encoding="utf-8-sig"))


# ---- how it is shown
def _show(form: dict[str, Any], format_: str, file: str) -> None:
    from ticdc_bridge.service.ddl_check import report

    if format_ == "json":
        print(json.dumps(form, ensure_ascii=False))
    elif format_ == "text":
        print("\n".join(report.text(form)))
    else:
        print("\n".join(report.github(form, file)))
        target = os.environ.get("GITHUB_STEP_SUMMARY")
        if target:
            with open(target, "a", encoding="utf-8") as summary:
                summary.write(report.summary(form, file))
