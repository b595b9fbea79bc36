"""What `--in` and `--out` say: `kafka:TOPIC`, a table of the lake, a file, or - for standard input and output."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ticdc_bridge.clients.kafka import TopicChoice
from ticdc_bridge.schemas.inputs.kafka_settings import TOPIC, client_settings, java_settings
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.io.stores import StoreUrl


@dataclass(frozen=True, slots=True)
class KafkaClient:
    """How Kafka is reached, and from which offset it is read. read: a job's topics, into which it writes nothing."""

    servers: str | None = None
    config_file: Path | None = None
    from_offset: int = 0
    read: TopicChoice | None = None

    def settings(self) -> dict[str, str]:
        """For librdkafka, in this process."""
        return client_settings(self.servers, self.config_file)

    def java_settings(self) -> dict[str, str]:
        """For Spark's client."""
        return java_settings(self.servers, self.config_file)


def topic_of_location(location: str, empty: bool = False) -> str | None:
    """TOPIC of `kafka:TOPIC`, None for anything else. SetupError USAGE when it is empty and must not be, and for a URL:
    what is no topic and no Delta table is a file or folder of this machine.
    """
    check_is_path(location)
    if not location.startswith(TOPIC):
        return None
    topic = location.removeprefix(TOPIC)
    if not topic and not empty:
        raise SetupError("USAGE", details="kafka:TOPIC: the topic is missing")
    return topic


def topics_of_location(location: str) -> TopicChoice | None:
    """The topics of `kafka:…`, None for anything else. SetupError USAGE as of topic_of_location."""
    text = topic_of_location(location)
    return None if text is None else TopicChoice(text)


class TableLocation(NamedTuple):
    """A table of the lake. format: `delta` or `iceberg`. name: CATALOG.DB.TABLE, or of `delta` a path."""

    format: str
    name: str

    def __str__(self) -> str:
        return f"{self.format}:{self.name}"

    @property
    def tombstones(self) -> TableLocation:
        """The location of the table's deleted keys (spark_jobs.lake.tombstones)."""
        return self._replace(name=self.name.rstrip("/") + "__tombstones")


_TABLE_NAMES = {"delta": "delta:PATH: the path", "iceberg": "iceberg:CATALOG.DB.TABLE: the name"}
TABLE_PREFIXES = tuple(f"{table_format}:" for table_format in _TABLE_NAMES)


def table_location_of(target: str) -> TableLocation | None:
    """`delta:PATH` or `iceberg:CATALOG.DB.TABLE`, None for anything else. SetupError USAGE for an incomplete name."""
    if not target.startswith(TABLE_PREFIXES):
        return None
    location = TableLocation(*target.split(":", 1))
    if not location.name:
        raise SetupError("USAGE", details=f"{_TABLE_NAMES[location.format]} is missing")
    if location.format == "iceberg":
        split_table_name(location.name)
    elif "`" in location.name and "/" not in location.name:
        details = f"{target}: write delta:CATALOG.SCHEMA.TABLE without backquotes, or the path of a folder (./…)"
        raise SetupError("USAGE", details=details)
    return location


def lake_location(target: str) -> TableLocation:
    """`table_location_of` of a location that is in the lake."""
    location = table_location_of(target)
    assert location is not None
    return location


def without_file_scheme(location: str) -> str:
    """file:/x and file:///x as the path that they are; any other location as it is."""
    return re.sub(r"\Afile:/+", "/", location)


_IN_CATALOG = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w${}-]+){2}")


def is_catalog_name(name: str) -> bool:
    """True if the name of a Delta table, or the rule of such names, is CATALOG.SCHEMA.TABLE: any other is a path."""
    return _IN_CATALOG.fullmatch(name) is not None


_NAME_PIECE = r"`(?:[^`]|``)*`|[^.`]"
_IDENTIFIER = re.compile(rf"((?:{_NAME_PIECE})+)(\.(?=.)|$)", re.DOTALL)


def split_table_name(name: str) -> tuple[str, ...]:
    """CATALOG.DB.TABLE as its parts: DB may be several, a part with a dot stands in backquotes. SetupError USAGE."""
    names, at = list[str](), 0
    while (match := _IDENTIFIER.match(name, at)) is not None:
        pieces = re.findall(_NAME_PIECE, match[1], re.DOTALL)
        names.append("".join(p[1:-1].replace("``", "`") if p[0] == "`" else p for p in pieces))
        at = match.end()
    if at < len(name) or len(names) < 3 or not all(names):
        details = (
            f"iceberg:{name}: write iceberg:CATALOG.DB.TABLE, the catalog's name in Spark's configuration"
            " (spark.sql.catalog.CATALOG) first; a name with a dot in backquotes"
        )
        raise SetupError("USAGE", details=details)
    return tuple(names)


def name_of_location(location: str) -> str:
    """A place without what it begins with: kafka:, delta:, iceberg:."""
    for prefix in (TOPIC, *TABLE_PREFIXES):
        location = location.removeprefix(prefix)
    return location.rstrip("/")


_URL = re.compile(r"(?!delta:/\w)(?!kafka:/[^/].*/\Z)([A-Za-z][A-Za-z0-9+.-]+):/(?=/|\w)")
"""delta:/folder is a path of this machine, kafka:/…/ a pattern of topics."""
_AZURE = "write abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"
_OTHER_WORDS = {
    "kafka": "write kafka:TOPIC", "delta": "write delta:PATH", "file": "give the path alone",
    "iceberg": "write iceberg:CATALOG.DB.TABLE",
    "azblob": _AZURE, "azure": _AZURE, "wasb": _AZURE, "wasbs": _AZURE,
}  # fmt: skip
_OTHER_LOCATION = (
    "files and folders, object stores (s3://, gs://, abfs://, hdfs://) and topics (kafka:TOPIC) are read and written:"
    " copy or mount it first (curl, rclone …)"
)
_LOCAL_PATH = "a file or folder of this machine is needed"


def check_is_path(location: str, option: str = "", local: bool = False) -> None:
    """SetupError USAGE for a URL that is no store's (local: for each). option: that has it, "" for --in, --out."""
    if not local and StoreUrl.of(location) is not None:
        return
    match = _URL.match(location)
    if match is not None and not Path(location).exists():
        advice = _LOCAL_PATH if local else _OTHER_WORDS.get(match[1].lower(), _OTHER_LOCATION)
        raise SetupError("USAGE", details=f"{option} {location}: it is a URL ({match[1]}://): {advice}".strip())


def check_folders(locations: Mapping[str, str]) -> None:
    """SetupError USAGE for a file whose folder is not there. locations: by option."""
    for option, location in locations.items():
        is_file = StoreUrl.of(location) is None and not location.startswith((*TABLE_PREFIXES, TOPIC))
        if is_file and not Path(location).resolve().parent.is_dir():
            raise SetupError("USAGE", details=f"{option} {location}: its folder is not there: make it")


def refuse_table_source(location: str) -> None:
    """SetupError USAGE for a table of the lake where messages are read."""
    if table_location_of(location) is not None:
        details = (
            f"{location}: messages are read from files and topics, not from tables of the lake: in Spark, read the"
            " table as a DataFrame and use ticdc_bridge.decode(); `replay` reads dead letters there"
        )
        raise SetupError("USAGE", details=details)


def check_is_file(location: str) -> None:
    """SetupError USAGE for a table of the lake, or an Avro file, where messages or events are written."""
    if table_location_of(location) is not None:
        raise SetupError("USAGE", details=f"{location}: a table of the lake is written by Spark, as --out of a job")
    if location.endswith(".avro"):
        raise SetupError("USAGE", details=f"{location}: an Avro file has one table's rows: decode --table DB.TABLE")


def check_is_lines(option: str, location: str, command: str, or_stdout: bool = False) -> None:
    """SetupError USAGE where what an option names is no file to which a command can write lines."""
    is_stdout = location == "-" and not or_stdout
    if is_stdout or location.startswith((*TABLE_PREFIXES, TOPIC)) or location.endswith(".parquet"):
        raise SetupError("USAGE", details=f"{option} {location}: {command} writes JSON lines to a file")


def check_different(locations: dict[str, str | None]) -> None:
    """SetupError USAGE when two of the places (by their option) are one file, one topic or one table."""
    by_path: dict[str | Path, str] = {}
    for option, location in locations.items():
        if location is None or location in ("-", TOPIC):
            continue
        prefix = next((entry for entry in (*TABLE_PREFIXES, TOPIC) if location.startswith(entry)), "")
        url = StoreUrl.of(location.removeprefix(prefix))
        path = prefix + url.spark if url else location if prefix else Path(location).resolve()
        if path in by_path:
            raise SetupError("USAGE", details=f"{by_path[path]} and {option} are the same place: {location}")
        by_path[path] = option
