"""Table definitions of a running TiDB: `mysql://USER@HOST:4000/DATABASE`. Only SELECT and SHOW are sent.

All tables are of one moment: SHOW CREATE TABLE in a transaction shows the schema of its start (upstream
`pkg/sessiontxn`), whose TSO is `@@tidb_current_ts`. MySQL and MariaDB tell none.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW, TYPED
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.reasons import reason_of, without_number

PASSWORD, TIDB_PASSWORD = "BRIDGE_TABLES_PASSWORD", "BRIDGE_TIDB_PASSWORD"
"""The environment variables that have the password of --ddl, and of all else."""
_URL: Final = re.compile(
    r"(?:mysql|tidb)://(?:(?P<user>[^@/?]*)@)?(?P<host>\[[0-9a-fA-F:.]+\]|[^@/?:\[\]]+)(?::(?P<port>\d{1,5}))?"
    r"(?:/(?P<db>[^/?]*))?(?:\?(?P<query>.*))?"
)
_PORT: Final = 4000
_SECONDS: Final = 10
_ACCESS_DENIED: Final = 1045
_REFUSED: Final = 2003
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")
# ssl-mode → whether the certificate is checked, and whether the host's name is.
_MODES: Final = {"REQUIRED": (False, False), "VERIFY_CA": (True, False), "VERIFY_IDENTITY": (True, True)}
_FILES: Final = {"ssl-ca": "ca", "ssl-cert": "cert", "ssl-key": "key"}
_PARAMETERS: Final = (*_FILES, "ssl-mode", "password-file")
SYSTEM_DATABASES: Final = (
    "information_schema", "inspection_schema", "metrics_schema", "mysql", "performance_schema", "sys",
    "workload_schema",
)  # fmt: skip
_SESSION: Final = "SET SESSION time_zone = '+00:00', sql_mode = ''"
_TABLES: Final = (
    "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
    " AND (%s = '' OR table_schema = %s) ORDER BY table_schema, table_name"
)
_DATABASES: Final = (
    "SELECT schema_name, default_character_set_name, default_collation_name FROM information_schema.schemata"
)


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server as its URL names it. database "": all but the system's."""

    host: str
    port: int
    user: str
    database: str
    password: str = field(repr=False)
    tls: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class TableStatements:
    """Statements that give the tables. commit_ts: of the moment they are of, None where the source tells none."""

    statements: list[DdlText]
    commit_ts: int | None


def is_server(source: str) -> bool:
    return source.startswith(("mysql://", "tidb://"))


def server_address(url: str, variable: str = TIDB_PASSWORD) -> ServerAddress:
    """The address in `mysql://USER@HOST:PORT/DATABASE?ssl-ca=FILE&ssl-cert=FILE&ssl-key=FILE&ssl-mode=MODE&password-file=FILE`.

    The password comes from the file, else from an environment variable, else from the URL. With a parameter of TLS the
    certificate and the host's name are checked, unless ssl-mode is VERIFY_CA or REQUIRED. ValueError.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError("mysql://USER@HOST:PORT/DATABASE is needed")
    user, _, password = (match["user"] or "root").partition(":")
    parameters = dict(word.partition("=")[::2] for word in (match["query"] or "").split("&") if word)
    if unknown := sorted(parameters.keys() - set(_PARAMETERS)):
        raise ValueError(f"{unknown[0]} is no parameter of it; known: {', '.join(_PARAMETERS)}")
    parameters = {name: unescape(value) for name, value in parameters.items()}
    password = os.environ.get(variable) or unescape(password)
    if file := parameters.pop("password-file", ""):
        try:
            password = Path(file).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeError) as error:
            raise ValueError(f"password-file {file}: {reason_of(error)}") from error
    host, port = match["host"].strip("[]"), int(match["port"] or _PORT)
    return ServerAddress(host, port, unescape(user), unescape(match["db"] or ""), password, _tls(parameters))


def unescape(text: str) -> str:
    """A text with %XX resolved, bytes of UTF-8 each."""
    data = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text.encode().decode("latin-1")).encode("latin-1")
    return data.decode("utf-8", "replace")


def _tls(parameters: dict[str, str]) -> dict[str, Any] | None:
    mode = parameters.get("ssl-mode", "").upper()
    if mode == "DISABLED" or not parameters:
        return None
    if mode and mode not in _MODES:
        raise ValueError(f"ssl-mode {mode}: {', '.join(('DISABLED', *_MODES))} are known")
    for name in _FILES:
        if name in parameters and not Path(parameters[name]).is_file():
            raise ValueError(f"{name}: there is no file {parameters[name]}")
    checked, named = _MODES[mode or "VERIFY_IDENTITY"]
    files = {of: parameters[name] for name, of in _FILES.items() if name in parameters}
    return {**files, "verify_mode": "required" if checked else "none", "check_hostname": named}


def live_tables(url: str, client: Any) -> TableStatements:
    """The tables of a server, through the PyMySQL module. ValueError says what is wrong, without any password."""
    address = server_address(url, PASSWORD)
    try:
        connection = connect(address, client, autocommit=False)
        try:
            return _read(connection.cursor(), address, client)
        finally:
            connection.close()
    except (client.MySQLError, OSError, RuntimeError) as error:
        raise ValueError(f"{address.name}: {error_reason(error, PASSWORD)}") from error


def connect(address: ServerAddress, client: Any, *, autocommit: bool, read_timeout: float = 6 * _SECONDS) -> Any:
    """A connection of the PyMySQL module `client`, in utf8mb4. Raises what the client raises.

    read_timeout: seconds that the server may take for the next bytes of an answer.
    """
    tls = address.tls
    if tls and "ca" not in tls and tls["verify_mode"] != "none":  # without `ca` PyMySQL checks nothing by itself
        import ssl

        paths = ssl.get_default_verify_paths()
        tls = {**tls, "ca": paths.cafile or paths.openssl_cafile}
    return client.connect(
        host=address.host, port=address.port, user=address.user, password=address.password, charset="utf8mb4",
        ssl=tls, connect_timeout=_SECONDS, read_timeout=read_timeout, autocommit=autocommit,
    )  # fmt: skip


def error_reason(error: Exception, variable: str = TIDB_PASSWORD) -> str:
    """The text of an error of the server or the client: (number, text). variable: that has the password."""
    if len(error.args) == 2 and isinstance(error.args[1], str):
        advice = {_ACCESS_DENIED: f": give its password in {variable}", _REFUSED: ": is it the right HOST:PORT?"}
        return f"{without_number(error.args[1])} (error {error.args[0]}){advice.get(error.args[0], '')}"
    return reason_of(error)


def _read(cursor: Any, address: ServerAddress, client: Any) -> TableStatements:
    cursor.execute(_SESSION)
    cursor.execute("BEGIN")
    try:
        cursor.execute("SELECT @@tidb_current_ts")
        commit_ts = int(cursor.fetchone()[0]) or None
    except client.MySQLError:
        commit_ts = None  # no TiDB
    cursor.execute(_TABLES, (address.database, address.database))
    tables = [(db, table) for db, table in cursor.fetchall() if address.database or db.lower() not in SYSTEM_DATABASES]
    if not tables:
        what = f"database {address.database}" if address.database else "the server"
        raise ValueError(f"{address.name}: {what} has no table that user {address.user} may see")
    known = {db for db, _ in tables}
    cursor.execute(_DATABASES)
    texts: list[DdlText] = []
    for name, charset, collate in cursor.fetchall():
        if name in known:
            words = f"{quote_name(name)} CHARACTER SET {charset} COLLATE {collate}"
            queries = f"CREATE DATABASE IF NOT EXISTS {words}", f"ALTER DATABASE {words}"
            texts += [DdlText(0, "", query, TYPED, where=f"database {name} of {address.name}") for query in queries]
    for db, table in tables:
        cursor.execute(f"SHOW CREATE TABLE {quote_name(db)}.{quote_name(table)}")
        texts.append(DdlText(0, db, cursor.fetchone()[1], SHOW, "UTC", f"table {db}.{table} of {address.name}"))
    return TableStatements(texts, commit_ts)
