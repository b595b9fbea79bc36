"""Reading a changefeed's settings: its sink URI, and its configuration.

The configuration is the TOML file of `cdc cli`, the JSON that it and TiCDC's API answer, or the JSON body with which
the API creates a changefeed. TiCDC refuses keys of a file that it does not know; its API ignores them (upstream
ticdc `api/v2/model.go`). A setting of the URI wins over the file's (`codec/common/config.go` mergeConfig), but for
`false` and 0, which TiCDC drops while merging.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from ticdc_bridge.schemas.model.credentials import mask_credentials
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.reasons import usage_errors
from ticdc_bridge.schemas.model.table_filter import PatternError, TableFilter
from ticdc_bridge.service.changefeed import setting_checks, settings
from ticdc_bridge.service.changefeed.known_faults import version_of
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings, line_in_file, line_in_uri, text_of, texts

MAX_CONFIG = 1 << 20
MAX_URI = 65_536
_TRUE, _FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")
_FORMS = {
    "text": "a text in quotes", "flag": "true or false", "number": "a whole number", "real": "a number",
    "texts": "a list of texts", "numbers": "a list of whole numbers",
    "duration": "a text with a unit, such as \"10s\",",
}  # fmt: skip
# Names of TiCDC's API that are others than the file's.
_OF_API = {
    "sink.file-index-width": "sink.file-index-digit",
    "sink.mysql-config.max-multi-update-row-count": "sink.mysql-config.max-multi-update-row",
}
_ANY_CASE = ("sink.kafka-config.sasl-mechanism", "sink.kafka-config.sasl-gssapi-auth-type")


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
    is_json, cloud_uri, positions = config.lstrip().startswith("{"), None, dict[str, str]()
    if cloud := _from_cloud(document):
        (document, cloud_uri), is_json = cloud, False
        sink_uri = sink_uri or cloud_uri
        underscores = '"data_format"' in config
        names = {path: _CAPITAL.sub(r"_\g<0>", n).lower() if underscores else n for path, n in _CLOUD_PATHS.items()}
        positions = {path: f"{name} (TiDB Cloud)" for path, name in names.items()}
    reader = _Reader(document, is_json)
    if schema_registry:
        positions["sink.schema-registry"] = "--schema-registry"
        sink = reader.document.get("sink")
        reader.document["sink"] = {**(sink if isinstance(sink, dict) else {}), "schema-registry": schema_registry}
    sink_uri = sink_uri or text_of(reader.answer, "sink-uri")
    if ticdc_version:
        version_of(ticdc_version)
    if not sink_uri and not reader.document:
        return ChangefeedSettings(keyspace=keyspace or "default", time_zone=time_zone, ticdc_version=ticdc_version)
    for path, value in _leaves(reader.document):
        reader.take_setting(path, value)
    uri = reader.take_uri(sink_uri) if sink_uri else None
    made = ("config", "sink-uri") if sink_uri == cloud_uri else ("config",)
    reader.origins |= {path: location for path, location in positions.items() if reader.origins.get(path) in made}
    return replace(reader.build_settings(uri, keyspace, time_zone), ticdc_version=ticdc_version)


def read_files(sink_uri: str | None, config: str | None, **more: str | None) -> ChangefeedSettings:
    """As `read`, with the name of the file; None is what is not given. SetupError USAGE when it can't be read."""
    texts = {name: text or "" for name, text in more.items()}
    return read(sink_uri or "", read_config(config) if config else "", **texts)


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
    with usage_errors("the changefeed's configuration is neither TOML nor JSON", ValueError, RecursionError):
        document = _with_dashes(json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text))
    return dict(document)


def _with_dashes(value: Any) -> Any:
    """API documents write `_` where the file has `-`; null means not set."""
    if isinstance(value, dict):
        return {str(k).replace("_", "-"): _with_dashes(v) for k, v in value.items() if v is not None}
    return [_with_dashes(v) for v in value if v is not None] if isinstance(value, list) else value


class _Reader:
    def __init__(self, document: dict[str, Any], is_json: bool = False) -> None:
        self.is_json = is_json
        inner = next((name for name in ("config", "replica-config") if isinstance(document.get(name), dict)), "")
        self.answered = inner == "config"  # by `cdc cli changefeed query` or the API; they know more than settings
        self.answer: Mapping[str, Any] = document if inner else {}
        self.document: dict[str, Any] = document[inner] if inner else document
        self.values: dict[str, Any] = {}
        self.origins: dict[str, str] = {}
        self.lists: dict[str, list[Mapping[str, Any]]] = {}
        self.problems: list[settings.Problem] = []

    def add_problem(self, severity: settings.Severity, text: str, fix: str = "") -> None:
        self.problems.append(settings.Problem(severity, text, fix))

    def add_error(self, text: str, line: str) -> None:
        self.add_problem("error", text, f"Change {line}")

    def add_unknown(self, what: str, path: str, hint: str = "") -> None:
        severity: settings.Severity = "warning" if self.is_json else "error"
        does = "does not know: its API ignores it" if self.is_json else "does not know and refuses"
        text = f"{what}, which TiCDC {does}" + (f"; {hint}" if hint else "")
        self.add_problem(severity, text, f"Take out {line_in_file(path)}")

    # ---- the file
    def take_setting(self, path: str, value: Any) -> None:
        path = _OF_API.get(path, path)
        table, _, name = path.rpartition(".")
        if table in settings.OTHER_TABLES and path not in settings.BY_PATH:
            form = settings.OTHER_TABLES[table].get(name)
            if form is None:
                self.add_unknown(f"the file has {path}", path)
            elif not _has_form(form, value):
                self.add_error(f"the file has {path} of another form: {_FORMS[form]} is needed", line_in_file(path))
            elif not self.is_json:  # what TiCDC answers has every setting
                self.origins[path] = "config"
            return
        if path in settings.LISTS:
            self.lists[path] = self._members(path, value)
            return
        # `[sink]` takes these two as well; the top level is where the documentation has them.
        path = {"sink.force-replicate": "force-replicate", "sink.case-sensitive": "case-sensitive"}.get(path, path)
        path = path.removeprefix("sink.") if path.startswith("sink.integrity.") else path
        key = settings.BY_PATH.get(path)
        if key is None:
            if self.answered and "." not in path:
                return
            hint = next((k.path for k in settings.KEYS if k.path.rpartition(".")[2] == path.rpartition(".")[2]), "")
            self.add_unknown(
                f"the file has {path}", path, settings.GONE.get(path) or (f"it belongs to {hint}" if hint else "")
            )
            return
        read = self._check_value(key, value, f"the file has {key.name}", line_in_file(path))
        if read is not None:
            self.values[path], self.origins[path] = read, "config"

    def _members(self, path: str, value: Any) -> list[Mapping[str, Any]]:
        members = value if isinstance(value, list) else [value]
        tables: list[Mapping[str, Any]] = [m for m in members if isinstance(m, dict)]
        if len(tables) < len(members):
            self.add_error(f"the file has {path} that is no list of tables; write [[{path}]]", line_in_file(path))
        for number, member in enumerate(tables, 1):
            for name, entry in member.items():
                form, member_path = settings.LISTS[path].get(name), f"{path}.{number}.{name}"
                if form is None:
                    self.add_unknown(f"[[{path}]] has {name}", member_path)
                elif not _has_form(form, entry):
                    text = f"[[{path}]] has {name} of another form: {_FORMS[form]} is needed"
                    self.add_error(text, line_in_file(member_path))
        return tables

    def _check_value(self, key: settings.Key, value: Any, where: str, line: str) -> Any:
        """The value in the form of its key, None where it has another, or is as if not set."""
        if key.form == "text" and isinstance(value, str):
            low = value.lower() if key.path in _ANY_CASE else value
            return low if low or key.needs_text else None
        if key.form == "duration" and not key.uri and isinstance(value, int) and not isinstance(value, bool):
            return f"{value}ns"
        if _has_form(key.form, value):
            return None if value in ("", []) else tuple(value) if isinstance(value, list) else value
        self.add_error(f"{where} of another form: {_FORMS[key.form]} is needed", line)
        return None

    # ---- the URI
    def take_uri(self, text: str) -> SplitResult:
        if len(text) > MAX_URI:
            raise SetupError("USAGE", details=f"the sink URI has more than {MAX_URI} characters")
        with usage_errors("the sink URI can't be read", ValueError):
            uri = urlsplit(text.strip())
            uri.port if "," not in uri.netloc else None  # noqa: B018 (reading it checks it)
            query, dropped = setting_checks.read_query(uri)
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=1000)
        if not uri.scheme or not uri.netloc:
            raise SetupError("USAGE", details="the sink URI has no scheme or host: kafka://HOST:PORT/TOPIC?protocol=…")
        self.problems += dropped
        seen_names: set[str] = set()
        for name, value in pairs:
            if name in seen_names:
                twice = f"the sink URI has {name} twice: TiCDC takes the first"
                self.add_problem("warning", twice, f"Take out {line_in_uri(name)}")
                continue
            seen_names.add(name)
            self._parameter(name, value)
        return uri

    def _parameter(self, name: str, text: str) -> None:
        key = settings.BY_URI.get(name)
        if key is None:
            if name not in settings.OTHER_URI:
                paths = (f"sink.{name}", name, f"sink.kafka-config.{name}")
                other = next(filter(None, map(settings.BY_PATH.get, paths)), None)
                where = f"; it is a setting of the file: {other.path}" if other else ""
                text = f"the sink URI has {name[:80]!r}, which TiCDC ignores without a warning{where}"
                self.add_problem("warning", text, f"Take out {line_in_uri(name[:80])}")
            return
        value = self._of_text(key, text)
        if value is None:
            return
        before = self.values.get(key.path)
        if before is not None and before != value:
            if value in (False, 0) and not key.zero_wins:
                text = (
                    f"the sink URI says {name}={text}, the file {_show(key, before)}: TiCDC drops false and 0 of the "
                    "URI while merging, so the file's value holds"
                )
                self.add_problem("warning", text, f"Change {line_in_file(key.path)}, or take out {line_in_uri(name)}")
                return
            text = f"the sink URI says {name}={_show(key, text)}, the file {_show(key, before)}: the URI's value holds"
            self.add_problem("warning", text, f"Take out {line_in_file(key.path)}, or change {line_in_uri(name)}")
        self.values[key.path], self.origins[key.path] = value, "sink-uri"

    def _of_text(self, key: settings.Key, text: str) -> Any:
        where, line = f"the sink URI has {key.uri}", line_in_uri(key.uri)
        if key.form == "flag":
            if text in _TRUE or text in _FALSE:
                return text in _TRUE
            if text:
                self.add_error(f"{where}={text[:40]!r}: true or false is needed", line)
            return None
        if key.form == "number":
            try:
                return int(text) if len(text) < 20 else self._check_value(key, text, where, line)
            except ValueError:
                self.add_error(f"{where}={text[:40]!r}: a number is needed", line)
                return None
        return self._check_value(key, text, where, line)

    # ---- all together
    def build_settings(self, uri: SplitResult | None, keyspace: str, time_zone: str) -> ChangefeedSettings:
        protocol_name = self.values.get("sink.protocol", "")
        protocol = settings.PROTOCOLS.get(protocol_name.lower(), "")
        if protocol_name and not protocol:
            text = f"protocol {protocol_name[:40]!r} is not known: {', '.join(sorted(settings.PROTOCOLS))}"
            self.add_error(text, settings.line_of(settings.BY_URI["protocol"], self.origins))
        topic, scheme = "", ""
        if uri is not None:
            scheme, topic = uri.scheme.lower(), unquote(uri.path.strip("/"))
            if scheme not in settings.KAFKA:
                self.add_problem("warning", f"the sink is {scheme}://: only Kafka's messages are read here")
            elif not topic:
                self.add_error("the sink URI has no topic: kafka://HOST:PORT/TOPIC", "the path of the sink URI")
            elif settings.expression_error(topic, avro=False) or "{" in topic:
                text = f"topic {topic[:80]!r}: letters, digits, '.', '_' and '-' are what a name may have"
                self.add_error(text, "the path of the sink URI")
            if scheme in settings.KAFKA and not protocol_name:
                text = "no protocol is given: TiCDC does not start such a changefeed"
                self.add_problem("error", text, f"Add protocol=… to the sink URI, or {line_in_file('sink.protocol')}")
        sensitive = bool(self.values.get("case-sensitive", False))
        feed = ChangefeedSettings(
            scheme=scheme,
            hosts=tuple(h for h in (uri.netloc.rpartition("@")[2].split(",") if uri else ()) if h),
            topic=topic,
            protocol=protocol,
            values=self.values,
            origins=self.origins,
            dispatchers=tuple(self._dispatchers(sensitive)),
            selectors=tuple(self._selectors(sensitive)),
            event_filters=tuple(  # those that fit no table keep nothing back
                entry
                for entry in self.lists.get("filter.event-filters", ())
                if setting_checks.keeps_something(texts(entry.get("matcher")))
            ),
            tables=self._filter(self.values.get("filter.rules", ("*.*",)), sensitive, "filter.rules"),
            keyspace=keyspace or "default",
            time_zone=time_zone,
        )
        return replace(feed, problems=(*self.problems, *setting_checks.problems(feed, self.lists)))

    def _dispatchers(self, sensitive: bool) -> Iterator[settings.Dispatcher]:
        for number, member in enumerate(self.lists.get("sink.dispatchers", ()), 1):
            matcher = texts(member.get("matcher"))
            yield settings.Dispatcher(
                self._filter(matcher, sensitive, f"sink.dispatchers.{number}.matcher"),
                matcher,
                text_of(member, "topic"),
                (text_of(member, "partition") or text_of(member, "dispatcher")).lower(),
                text_of(member, "index"),
                texts(member.get("columns")),
                text_of(member, "target-schema"),
                text_of(member, "target-table"),
            )

    def _selectors(self, sensitive: bool) -> Iterator[settings.ColumnSelector]:
        path = "sink.column-selectors"
        for number, member in enumerate(self.lists.get(path, ()), 1):
            tables = self._filter(texts(member.get("matcher")), sensitive, f"{path}.{number}.matcher")
            try:
                yield settings.ColumnSelector.of(tables, texts(member.get("columns")))
            except PatternError as error:
                self.add_error(f"{path}: {error}", line_in_file(f"{path}.{number}.columns"))

    def _filter(self, patterns: tuple[str, ...], sensitive: bool, path: str) -> TableFilter:
        try:
            return TableFilter(patterns, sensitive)
        except PatternError as error:
            self.add_error(f"{path}: {error}", line_in_file(path))
            return TableFilter(())


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        path = prefix + name
        if path in settings.FREE or any(path.startswith(free + ".") for free in settings.FREE):
            continue
        if isinstance(value, dict) and path not in settings.LISTS:
            yield from _leaves(value, path + ".")
        else:
            yield path, value


def _has_form(form: str, value: Any) -> bool:
    if form == "flag" or isinstance(value, bool):
        return form == "flag" and isinstance(value, bool)
    if form in ("texts", "numbers"):
        return isinstance(value, list) and all(_has_form("text" if form == "texts" else "count", v) for v in value)
    if form == "count":
        return isinstance(value, int) and value >= 0
    if form == "real":
        return isinstance(value, (int, float))
    return isinstance(value, int if form == "number" else str)


def _show(key: settings.Key, value: Any) -> str:
    if key.secret:
        return "***"
    return mask_credentials(str(value).lower() if isinstance(value, bool) else str(value))[:80]


# ---- TiDB Cloud's form
Object = Mapping[str, Any]
_PROTOCOLS: Final = {
    "CANAL_JSON": "canal-json", "AVRO": "avro", "OPEN_PROTOCOL": "open-protocol", "DEBEZIUM": "debezium",
}  # fmt: skip
_MECHANISMS: Final = {
    "SASL_PLAIN": "plain", "SASL_SCRAM_SHA_256": "scram-sha-256", "SASL_SCRAM_SHA_512": "scram-sha-512",
}  # fmt: skip
_VERSIONS: Final = {"VERSION_2XX": "2.4.0", "VERSION_3XX": "3.0.0"}
_CAPITAL: Final = re.compile("[A-Z]")
_PARTITIONS: Final = {"TABLE": "table", "INDEX_VALUE": "index-value", "TS": "ts", "COLUMN": "columns"}
_AVRO: Final = "dataFormat.avroConfig."
_GLUE: Final = {
    "region": "region", "name": "registry-name", "accessKeyId": "access-key", "secretAccessKey": "secret-access-key",
}  # fmt: skip


def _from_cloud(document: Object) -> tuple[dict[str, Any], str] | None:
    """(the file's tables, what stands for the sink URI); None for settings of another form.

    The API writes dataFormat, the command line's template data_format, which is read as data-format (`_document`).
    """
    document = _with_capitals(document)
    kafka = next((o for o in _objects(document) if isinstance(o.get("dataFormat"), Mapping)), None)
    if kafka is None:
        return None
    filter_ = next((o for o in _objects(document) if "filterRule" in o), {})
    return _file(kafka, filter_), _uri(kafka)


def _with_capitals(value: Any) -> Any:
    if isinstance(value, Mapping):
        names = (name.split("-") for name in value)
        keys = (first + "".join(word.capitalize() for word in words) for first, *words in names)
        return dict(zip(keys, map(_with_capitals, value.values()), strict=True))
    return [_with_capitals(entry) for entry in value] if isinstance(value, list) else value


def _objects(document: Object, depth: int = 3) -> Iterator[Object]:
    yield document
    for value in document.values():
        if isinstance(value, Mapping) and depth:
            yield from _objects(value, depth - 1)


def _at(document: Object, path: str) -> Any:
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _lower(value: Any) -> str:
    return value.lower() if isinstance(value, str) else ""


def _flag(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else ""


# Parameters of the sink URI → where TiDB Cloud's settings have them, and how their values are written.
_PARAMETERS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "protocol": ("dataFormat.protocol", lambda value: _PROTOCOLS.get(str(value), str(value))),
    "enable-tidb-extension": ("dataFormat.enableTidbExtension", _flag),
    "avro-decimal-handling-mode": (_AVRO + "decimalHandlingMode", _lower),
    "avro-bigint-unsigned-handling-mode": (_AVRO + "bigintUnsignedHandlingMode", _lower),
    "compression": ("broker.compression", _lower),
    "kafka-version": ("broker.kafkaVersion", lambda value: _VERSIONS.get(str(value), "")),
    "partition-num": ("topicPartitionConfig.partitionNum", lambda value: value),
    "replication-factor": ("topicPartitionConfig.replicationFactor", lambda value: value),
    "sasl-mechanism": ("authentication.authType", lambda value: _MECHANISMS.get(str(value), "")),
    "sasl-user": ("authentication.userName", lambda value: value),
    "sasl-password": ("authentication.password", lambda value: value),
    "enable-tls": ("authentication.enableTls", lambda value: _flag(value) if value else ""),
}
_CLOUD_PATHS: Final = {
    **{settings.BY_URI[name].path: path for name, (path, _) in _PARAMETERS.items()},
    "sink.schema-registry": _AVRO + "confluentSchemaRegistry",
    "force-replicate": "mode of the filter", "filter.rules": "filterRule of the filter",
}  # fmt: skip


def _uri(kafka: Object) -> str:
    values = {name: written(_at(kafka, path)) for name, (path, written) in _PARAMETERS.items()}
    if _at(kafka, "dataFormat.protocol") != "AVRO":
        values = {name: value for name, value in values.items() if not name.startswith("avro-")}
    query = {name: value for name, value in values.items() if value not in (None, "")}
    hosts = _at(kafka, "network.publicEndpoints") or "tidb-cloud"
    return f"kafka://{hosts}/{_at(kafka, 'topicPartitionConfig.defaultTopic') or ''}?{urlencode(query)}"


def _file(kafka: Object, filter_: Object) -> dict[str, Any]:
    sink: dict[str, Any] = {"dispatchers": list(_dispatchers(kafka))}
    selectors = kafka.get("columnSelectors")
    if selectors:
        sink["column-selectors"] = selectors
    registry = _at(kafka, _AVRO + "confluentSchemaRegistry")
    names = ("endpoint", "schemaRegistryEndpoints")
    url = next((registry[name] for name in names if registry.get(name)), "") if registry else ""
    if url and _at(kafka, "dataFormat.protocol") == "AVRO":
        sink["schema-registry"] = url
    glue = _at(kafka, _AVRO + "awsGlueSchemaRegistry") or {}
    named = {setting: glue[key] for key, setting in _GLUE.items() if glue.get(key)}
    if named and _at(kafka, "dataFormat.protocol") == "AVRO":
        sink["kafka-config"] = {"glue-schema-registry-config": named}
    document: dict[str, Any] = {"sink": sink}
    if filter_:
        rules = [{"matcher": r.get("matcher"), "ignore-event": r.get("ignoreEvent")}
                 for r in filter_.get("eventFilterRule") or () if isinstance(r, Mapping)]  # fmt: skip
        document["filter"] = {"rules": filter_.get("filterRule") or ["*.*"], "event-filters": rules}
        document["force-replicate"] = filter_.get("mode") == "FORCE_SYNC"
    return document


def _dispatchers(kafka: Object) -> Iterator[dict[str, Any]]:
    """One list for partitions and one topic rule for all tables: TiCDC has both in a dispatcher."""
    config: Object = kafka.get("topicPartitionConfig") or {}
    prefix, between, end = (str(config.get(name) or "") for name in ("topicPrefix", "separator", "topicSuffix"))
    topic = {
        "BY_TABLE": f"{prefix}{{schema}}{between}{{table}}{end}", "BY_DATABASE": f"{prefix}{{schema}}{end}",
    }.get(str(config.get("dispatchType")), "")  # fmt: skip
    everything = False
    for dispatcher in config.get("partitionDispatchers") or ():
        matcher = dispatcher.get("matcher") or ["*.*"]
        everything = everything or matcher == ["*.*"]
        kind = str(dispatcher.get("partitionType"))
        rule = {"matcher": matcher, "partition": _PARTITIONS.get(kind, kind.lower()), "topic": topic}
        if kind == "INDEX_VALUE" and dispatcher.get("indexName"):
            rule["index"] = dispatcher["indexName"]
        if kind == "COLUMN":
            rule["columns"] = dispatcher.get("columns") or []
        yield rule
    if topic and not everything:
        yield {"matcher": ["*.*"], "topic": topic}
