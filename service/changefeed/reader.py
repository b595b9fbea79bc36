"""Reading a changefeed's settings: its sink URI, and its configuration file (TOML, or the JSON of `cdc cli`).

A setting of the URI wins over the file's (upstream ticdc `codec/common/config.go` mergeConfig), but for `false` and 0,
which TiCDC drops while merging. The file is read strictly: TiCDC refuses keys that it does not know.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from schemas.model.credentials import mask_credentials
from schemas.model.errors import SetupError
from schemas.model.reasons import reason_of
from schemas.model.table_filter import PatternError, TableFilter
from service.changefeed import setting_checks, topics
from service.changefeed.cloud_form import from_cloud
from service.changefeed.known_faults import version_of
from service.changefeed.setting_keys import BY_PATH, BY_URI, FREE, KEYS, LISTS, OTHER_TABLES, PROTOCOLS, Key
from service.changefeed.settings import ChangefeedSettings, ColumnSelector, Problem, Severity, texts
from service.changefeed.topics import PARTITION_RULES, Dispatcher

MAX_CONFIG = 1 << 20
MAX_URI = 65_536
KAFKA = ("kafka", "kafka+ssl")
_TRUE, _FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")
_FORMS = {
    "text": "a text in quotes", "flag": "true or false", "number": "a whole number", "texts": "a list of texts",
    "numbers": "a list of whole numbers",     "duration": "a text with a unit, such as \"10s\",",
}  # fmt: skip
_ANY_CASE = (
    "sink.kafka-config.compression", "sink.kafka-config.sasl-mechanism", "sink.kafka-config.sasl-gssapi-auth-type",
)  # fmt: skip
# Taken from the URI by other parts of TiCDC.
_OTHER_URI = ("namespace", "keyspace", "time-zone", "timezone", "cluster-id", "version")


def read(
    sink_uri: str = "",
    config: str = "",
    *,
    keyspace: str = "",
    time_zone: str = "",
    schema_registry: str = "",
    ticdc_version: str = "",
) -> ChangefeedSettings:
    """The settings, with everything odd about them in `problems`.

    config: the text of the file, or the JSON that TiDB Cloud shows. schema_registry: what `cdc cli changefeed create
    --schema-registry` is given, which stands for the file's. SetupError USAGE where one can't be read at all.
    """
    document = _document(config)
    cloud = from_cloud(document)
    if cloud is not None:
        document, sink_uri = cloud.document, sink_uri or cloud.uri
    reader = _Reader(document)
    if schema_registry:
        sink = reader.document.get("sink")
        reader.document["sink"] = {**(sink if isinstance(sink, dict) else {}), "schema-registry": schema_registry}
    sink_uri = sink_uri or reader.uri_of_document()
    if ticdc_version:
        version_of(ticdc_version)
    if not sink_uri and not reader.document:
        return ChangefeedSettings(keyspace=keyspace or "default", time_zone=time_zone, ticdc_version=ticdc_version)
    reader.take_file()
    uri = reader.take_uri(sink_uri) if sink_uri else None
    return replace(reader.build_settings(uri, keyspace, time_zone), ticdc_version=ticdc_version)


def read_files(sink_uri: str | None, config: str | None, **more: str | None) -> ChangefeedSettings:
    """As `read`, with the name of the file; None is what is not given. SetupError USAGE when it can't be read."""
    given = {name: text or "" for name, text in more.items()}
    return read(sink_uri or "", read_config(config) if config else "", **given)


def read_config(path: str) -> str:
    """The text of a configuration file; of one that is too long, more than is taken. SetupError USAGE."""
    try:
        with open(path, "rb") as file:
            return file.read(MAX_CONFIG + 1).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise SetupError("USAGE", details=f"--config {path}: {reason}") from None


def _document(text: str) -> dict[str, Any]:
    """The file as nested tables, keys with dashes."""
    if len(text) > MAX_CONFIG:
        raise SetupError("USAGE", details=f"the changefeed's configuration has more than {MAX_CONFIG} characters")
    if not text.strip():
        return {}
    try:
        document = _with_dashes(json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        details = f"the changefeed's configuration is neither TOML nor JSON: {reason_of(error)}"
        raise SetupError("USAGE", details=details) from None
    return dict(document)


def _with_dashes(value: Any) -> Any:
    """API documents write `_` where the file has `-`; null means not set."""
    if isinstance(value, dict):
        return {str(k).replace("_", "-"): _with_dashes(v) for k, v in value.items() if v is not None}
    return [_with_dashes(v) for v in value if v is not None] if isinstance(value, list) else value


class _Reader:
    def __init__(self, document: dict[str, Any]) -> None:
        whole = document if isinstance(document.get("config"), dict) else {}
        self.whole: Mapping[str, Any] = whole  # what `cdc cli changefeed query` and the API answer
        self.document: dict[str, Any] = whole["config"] if whole else document
        self.values: dict[str, Any] = {}
        self.given: dict[str, str] = {}
        self.lists: dict[str, list[Mapping[str, Any]]] = {}
        self.problems: list[Problem] = []

    def add_problem(self, severity: Severity, text: str) -> None:
        self.problems.append(Problem(severity, text))

    def uri_of_document(self) -> str:
        uri = self.whole.get("sink-uri", "")
        return uri if isinstance(uri, str) else ""

    # ---- the file
    def take_file(self) -> None:
        for path, value in _leaves(self.document):
            self._setting(path, value)

    def _setting(self, path: str, value: Any) -> None:
        table = path.rpartition(".")[0]
        other = next((t for t in OTHER_TABLES if table == t or table.startswith(t + ".")), None)
        if other is not None and path not in BY_PATH:
            if path[len(other) + 1 :].partition(".")[0] not in OTHER_TABLES[other]:
                self.add_problem("error", f"the file has {path}, which TiCDC does not know and refuses")
            return
        if path in LISTS:
            self.lists[path] = self._members(path, value)
            return
        # `[sink]` takes these two as well; the top level is where the documentation has them.
        path = {"sink.force-replicate": "force-replicate", "sink.case-sensitive": "case-sensitive"}.get(path, path)
        path = path.removeprefix("sink.") if path.startswith("sink.integrity.") else path
        key = BY_PATH.get(path)
        if key is None:
            if self.whole and "." not in path:
                return  # the API's answers hold more than settings
            hint = next((k.path for k in KEYS if k.path.rpartition(".")[2] == path.rpartition(".")[2]), "")
            where = f"; it belongs to {hint}" if hint else ""
            self.add_problem("error", f"the file has {path}, which TiCDC does not know and refuses{where}")
            return
        read = self._check_value(key, value, "the file")
        if read is not None:
            self.values[path], self.given[path] = read, "config"

    def _members(self, path: str, value: Any) -> list[Mapping[str, Any]]:
        members = value if isinstance(value, list) else [value]
        tables: list[Mapping[str, Any]] = [m for m in members if isinstance(m, dict)]
        if len(tables) < len(members):
            self.add_problem("error", f"the file has {path} that is no list of tables; write [[{path}]]")
        for member in tables:
            for name in sorted(member.keys() - LISTS[path]):
                self.add_problem("error", f"[[{path}]] has {name}, which TiCDC does not know and refuses")
        return tables

    def _check_value(self, key: Key, value: Any, where: str) -> Any:
        """The value in the form of its key, None where it has another."""
        if key.form == "text" and isinstance(value, str):
            low = value.lower() if key.path in _ANY_CASE else value
            if key.choices and low and low not in key.choices:
                self.add_problem(
                    "error", f"{where} has {key.name} {value[:80]!r}: {' or '.join(key.choices)} is what TiCDC takes"
                )
                return None
            return low or None
        if key.form == "flag" and isinstance(value, bool):
            return value
        if key.form == "number" and isinstance(value, int) and not isinstance(value, bool):
            return value
        if key.form == "texts" and isinstance(value, list) and all(isinstance(v, str) for v in value):
            return tuple(value)
        if key.form == "numbers" and isinstance(value, list) and all(type(v) is int and v >= 0 for v in value):
            return tuple(value)
        if key.form == "duration" and isinstance(value, str):
            return value or None
        if key.form == "duration" and not key.uri and isinstance(value, int) and not isinstance(value, bool):
            return f"{value}ns"
        self.add_problem("error", f"{where} has {key.name} of another form: {_FORMS[key.form]} is needed")
        return None

    # ---- the URI
    def take_uri(self, text: str) -> SplitResult:
        if len(text) > MAX_URI:
            raise SetupError("USAGE", details=f"the sink URI has more than {MAX_URI} characters")
        try:
            uri = urlsplit(text.strip())
            uri.port if "," not in uri.netloc else None  # noqa: B018 (reading it checks it)
            pairs = parse_qsl(uri.query, keep_blank_values=True, max_num_fields=1000)
        except ValueError as error:
            raise SetupError("USAGE", details=f"the sink URI can't be read: {reason_of(error)}") from None
        if not uri.scheme or not uri.netloc:
            raise SetupError("USAGE", details="the sink URI has no scheme or host: kafka://HOST:PORT/TOPIC?protocol=…")
        seen_names: set[str] = set()
        for name, value in pairs:
            if name in seen_names:
                self.add_problem("warning", f"the sink URI has {name} twice: TiCDC takes the first")
                continue
            seen_names.add(name)
            self._parameter(name, value)
        return uri

    def _parameter(self, name: str, text: str) -> None:
        key = BY_URI.get(name)
        if key is None:
            if name not in _OTHER_URI:
                other = BY_PATH.get(f"sink.{name}") or BY_PATH.get(name) or BY_PATH.get(f"sink.kafka-config.{name}")
                where = f"; it is a setting of the file: {other.path}" if other else ""
                self.add_problem(
                    "warning", f"the sink URI has {name[:80]!r}, which TiCDC passes over in silence{where}"
                )
            return
        value = self._of_text(key, text)
        if value is None:
            return
        before = self.values.get(key.path)
        if before is not None and before != value:
            if value in (False, 0) and not key.zero_wins:
                self.add_problem(
                    "warning",
                    f"the sink URI says {name}={text}, the file {_show(key, before)}: TiCDC drops false and 0 of the "
                    "URI while merging, so the file's value holds; change it in the file",
                )
                return
            setting = f"{name}={_show(key, text)}"
            self.add_problem(
                "warning", f"the sink URI says {setting}, the file {_show(key, before)}: the URI's value holds"
            )
        self.values[key.path], self.given[key.path] = value, "sink-uri"

    def _of_text(self, key: Key, text: str) -> Any:
        if key.form == "flag":
            if text in _TRUE or text in _FALSE:
                return text in _TRUE
            if text:
                self.add_problem("error", f"the sink URI has {key.uri}={text[:40]!r}: true or false is needed")
            return None
        if key.form == "number":
            try:
                return int(text) if len(text) < 20 else self._check_value(key, text, "the sink URI")
            except ValueError:
                self.add_problem("error", f"the sink URI has {key.uri}={text[:40]!r}: a number is needed")
                return None
        return self._check_value(key, text, "the sink URI")

    # ---- all together
    def build_settings(self, uri: SplitResult | None, keyspace: str, time_zone: str) -> ChangefeedSettings:
        protocol_name = self.values.get("sink.protocol", "")
        protocol = PROTOCOLS.get(protocol_name.lower(), "")
        if protocol_name and not protocol:
            self.add_problem("error", f"protocol {protocol_name[:40]!r} is not known: {', '.join(sorted(PROTOCOLS))}")
        topic, scheme = "", ""
        if uri is not None:
            scheme, topic = uri.scheme.lower(), unquote(uri.path.strip("/"))
            self._check_address(scheme, topic, protocol_name)
        sensitive = bool(self.values.get("case-sensitive", False))
        return ChangefeedSettings(
            scheme=scheme,
            hosts=tuple(h for h in (uri.netloc.rpartition("@")[2].split(",") if uri else ()) if h),
            topic=topic,
            protocol=protocol,
            values=self.values,
            given=self.given,
            dispatchers=tuple(self._dispatchers(protocol, sensitive)),
            selectors=tuple(self._selectors(sensitive)),
            event_filters=tuple(self.lists.get("filter.event-filters", ())),
            tables=self._filter(self.values.get("filter.rules", ("*.*",)), sensitive, "filter.rules"),
            keyspace=keyspace or "default",
            time_zone=time_zone,
            problems=(*self.problems, *setting_checks.problems(self.values, self.given, self.lists, scheme, protocol)),
        )

    def _check_address(self, scheme: str, topic: str, protocol: str) -> None:
        if scheme not in KAFKA:
            self.add_problem("warning", f"the sink is {scheme}://: only Kafka's messages are read here")
        elif not topic:
            self.add_problem("error", "the sink URI has no topic: kafka://HOST:PORT/TOPIC")
        elif topics.expression_error(topic, avro=False) or "{" in topic:
            self.add_problem(
                "error", f"topic {topic[:80]!r}: letters, digits, '.', '_' and '-' are what a name may have"
            )
        if scheme in KAFKA and not protocol:
            self.add_problem("error", "no protocol is given: TiCDC does not start such a changefeed; add protocol=…")

    def _dispatchers(self, protocol: str, sensitive: bool) -> Iterator[Dispatcher]:
        for member in self.lists.get("sink.dispatchers", ()):
            matcher = texts(member.get("matcher"))
            rule, topic = _text(member, "partition"), _text(member, "topic")
            if rule and _text(member, "dispatcher"):
                self.add_problem("error", f"the dispatcher for {matcher} has both `dispatcher` and `partition`")
            rule = (rule or _text(member, "dispatcher")).lower()
            if rule not in PARTITION_RULES:
                self.add_problem(
                    "warning", f"the dispatcher for {matcher}: partition {rule!r} is not known, TiCDC uses `table`"
                )
            wrong = topics.expression_error(topic, protocol in ("avro", "debezium-avro"))
            if wrong:
                self.add_problem("error", f"the dispatcher for {matcher}: topic {topic[:80]!r}: {wrong}")
            yield Dispatcher(
                self._filter(matcher, sensitive, "sink.dispatchers"),
                matcher,
                topic,
                rule,
                _text(member, "index"),
                texts(member.get("columns")),
                _text(member, "target-schema"),
                _text(member, "target-table"),
            )

    def _selectors(self, sensitive: bool) -> Iterator[ColumnSelector]:
        for member in self.lists.get("sink.column-selectors", ()):
            tables = self._filter(texts(member.get("matcher")), sensitive, "sink.column-selectors")
            try:
                yield ColumnSelector.of(tables, texts(member.get("columns")))
            except PatternError as error:
                self.add_problem("error", f"sink.column-selectors: {error}")

    def _filter(self, patterns: tuple[str, ...], sensitive: bool, where: str) -> TableFilter:
        try:
            return TableFilter(patterns, sensitive)
        except PatternError as error:
            self.add_problem("error", f"{where}: {error}")
            return TableFilter(())


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        path = prefix + name
        if path in FREE or any(path.startswith(free + ".") for free in FREE):
            continue
        if isinstance(value, dict) and path not in LISTS:
            yield from _leaves(value, path + ".")
        else:
            yield path, value


def _text(member: Mapping[str, Any], name: str) -> str:
    value = member.get(name, "")
    return value if isinstance(value, str) else ""


def _show(key: Key, value: Any) -> str:
    if key.secret:
        return "***"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return mask_credentials(text)[:80]
