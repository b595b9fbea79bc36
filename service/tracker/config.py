"""What to follow: `[NAME=]kafka:T1,T2`, `[NAME=]FILE`, or a TOML file with several changefeeds.

[[changefeed]]
name = "shop"
in = ["kafka:shop-orders", "kafka:shop-users"]   # or "kafka:shop-orders,shop-users"
format = "open"                                   # auto where left out
bootstrap-servers = "kafka:9092"                  # BRIDGE_BOOTSTRAP_SERVERS where left out
kafka-config = "client.properties"
ddl-time-zone = "Asia/Shanghai"
time-zone = "Asia/Shanghai"
claim-check-dir = "claims"
sink-uri = "kafka://…"                             # the changefeed's own settings, as for the command doctor
config = "changefeed.toml"
schema-registry = "http://registry:8081"
ticdc-version = "v8.5.4"
accept = "timestamp-zone, no-types"                # the doctor's warnings that the home page leaves out
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ticdc_bridge.schemas.inputs.kafka_settings import TOPIC, client_settings
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.reasons import reason_of, usage_errors
from ticdc_bridge.service.changefeed.reader import read_files
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings
from ticdc_bridge.service.history.model import DEFAULT_CHANGEFEED
from ticdc_bridge.service.tracker.sources import FileSource, KafkaSource, Source

_SETTINGS: Final = ("sink-uri", "config", "schema-registry", "ticdc-version", "accept")
_TEXTS: Final = frozenset(
    {"name", "format", "bootstrap-servers", "kafka-config", "ddl-time-zone", "time-zone", "claim-check-dir", *_SETTINGS}
)


@dataclass(frozen=True, slots=True)
class TrackedChangefeed:
    """One changefeed and where its messages are: topics, or one file. settings: its own in TiCDC, if given."""

    name: str = DEFAULT_CHANGEFEED
    topics: tuple[str, ...] = ()
    file: Path | None = None
    format: str = "auto"
    bootstrap_servers: str | None = None
    kafka_config: Path | None = None
    ddl_time_zone: str | None = None
    time_zone: str = "UTC"
    claim_check_dir: Path | None = None
    settings: ChangefeedSettings | None = None

    def check(self) -> TrackedChangefeed:
        """Itself. SetupError USAGE for a format or a zone that is none, and for settings that Kafka's client lacks."""
        format_named(self.format)
        if not self.name or len(self.name) > 200 or not self.name.isprintable():
            raise SetupError("USAGE", details=f"changefeed {self.name[:60]!r}: a name of 1 to 200 characters is needed")
        for option, zone in (("ddl-time-zone", self.ddl_time_zone), ("time-zone", self.time_zone)):
            with usage_errors(f"--{option}", ValueError):
                values.zone(zone or "UTC")
        if self.topics:
            client_settings(self.bootstrap_servers, self.kafka_config)
        return self

    def source(self) -> Source:
        """SetupError USAGE or KAFKA_UNREACHABLE."""
        if self.file is not None:
            return FileSource(self.file)
        return KafkaSource(list(self.topics), client_settings(self.bootstrap_servers, self.kafka_config))


def inputs(texts: list[str], option: str = "--in") -> tuple[tuple[str, ...], Path | None]:
    """(topics, file) of `kafka:T1,T2` or a file's path. SetupError USAGE."""
    topics: dict[str, None] = {}
    files = [entry for entry in texts if not entry.startswith(TOPIC)]
    for text in texts:
        if text.startswith(TOPIC):
            topics.update(dict.fromkeys(topic.strip() for topic in text.removeprefix(TOPIC).split(",")))
    if "" in topics:
        raise SetupError("USAGE", details=f"{option} kafka: needs a topic: kafka:TOPIC")
    if len(files) > 1 or (files and topics) or not texts:
        raise SetupError("USAGE", details=f"{option}: one FILE, or kafka:TOPIC (several with commas) is needed")
    return tuple(topics), Path(files[0]) if files else None


def parse_tracked(text: str, servers: str = "", config: str = "") -> list[TrackedChangefeed]:
    """The changefeeds of `serve --track`, none for "". servers, config: for those that name none. SetupError USAGE."""
    if not text:
        return []
    name, equals, rest = text.partition("=")
    if not equals or name.startswith(TOPIC) or "/" in name:
        name, rest = DEFAULT_CHANGEFEED, text
    if rest.startswith(TOPIC):
        topics, _ = inputs([rest], "--track")
        kafka = Path(config) if config else None
        return [TrackedChangefeed(name, topics, bootstrap_servers=servers or None, kafka_config=kafka).check()]
    path = Path(rest)
    try:
        listed = tomllib.loads(path.read_text(encoding="utf-8-sig")).get("changefeed")
    except (OSError, ValueError) as error:
        raise SetupError("USAGE", details=f"--track {rest}: {reason_of(error)} (a topic is kafka:TOPIC)") from error
    if not isinstance(listed, list) or not listed:
        raise SetupError("USAGE", details=f"--track {rest}: it has no [[changefeed]]")
    changefeeds = [_of_table(entry, rest, path.parent, servers, config) for entry in listed]
    if len({changefeed.name for changefeed in changefeeds}) < len(changefeeds):
        raise SetupError("USAGE", details=f"--track {rest}: two changefeeds have one name")
    return changefeeds


def _of_table(table: Any, where: str, folder: Path, servers: str, config: str) -> TrackedChangefeed:
    if not isinstance(table, dict) or "name" not in table or "in" not in table:
        raise SetupError("USAGE", details=f"--track {where}: each [[changefeed]] needs name and in")
    unknown = table.keys() - _TEXTS - {"in"}
    if unknown:
        raise SetupError("USAGE", details=f"--track {where}: {', '.join(sorted(unknown))} is not known")
    sources = table["in"] if isinstance(table["in"], list) else [table["in"]]
    if not all(isinstance(entry, str) for entry in (*sources, *(table[k] for k in table.keys() & _TEXTS))):
        raise SetupError("USAGE", details=f"--track {where}: texts are needed")
    topics, file = inputs(sources, f"--track {where}: in")
    known = {"in", *_SETTINGS}
    of: dict[str, Any] = {name.replace("-", "_"): value for name, value in table.items() if name not in known}
    of["settings"] = _read_settings(table, where, folder)
    for name in ("kafka_config", "claim_check_dir"):
        if name in of:
            of[name] = folder / of[name]
    of.setdefault("bootstrap_servers", servers or None)
    of.setdefault("kafka_config", Path(config) if config else None)
    return TrackedChangefeed(topics=topics, file=file and folder / file, **of).check()


def _read_settings(table: dict[str, Any], where: str, folder: Path) -> ChangefeedSettings | None:
    """The changefeed's settings in TiCDC; None where neither its sink URI nor its file is given. SetupError USAGE."""
    uri, config = table.get("sink-uri"), table.get("config")
    if not uri and not config:
        return None
    with usage_errors(f"--track {where}: changefeed {table['name']}", SetupError):
        more = {key.replace("-", "_"): table.get(key) for key in ("time-zone", "schema-registry", "ticdc-version")}
        settings = read_files(uri, str(folder / config) if config else None, **more)
        return replace(settings, accepted=frozenset(table.get("accept", "").replace(",", " ").split()))
