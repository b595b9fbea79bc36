"""The doctor's rules about settings that TiCDC passes over, and about rows that it leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ticdc_bridge.service.changefeed.doctor_input import DoctorInput, DoctorRule
from ticdc_bridge.service.changefeed.setting_checks import EXPRESSIONS, keeps_something
from ticdc_bridge.service.changefeed.setting_keys import OTHER_SINKS
from ticdc_bridge.service.changefeed.settings import texts

_AVRO: Final = ("avro", "debezium-avro")
_CODEC: Final = "ticdc pkg/sink/codec/common/config.go"
_KAFKA: Final = "ticdc pkg/sink/kafka/options.go"
_FILTER: Final = "ticdc pkg/filter"
_LARGE: Final = "sink.kafka-config.large-message-handle."
_ROW_KEY: Final = "sink.kafka-config.codec-config.output-row-key"
_OF_ROWS: Final = ("all dml", "insert", "update", "delete")
_PORT: Final = re.compile(r":\d+\Z")
_SYSTEM: Final = re.compile(
    r"`?(?:information_schema|performance_schema|metrics_schema|inspection_schema|mysql|sys|tidb_cdc)`?\..*",
    re.IGNORECASE,
)


def _kept_back(p: DoctorInput) -> list[str]:
    """What keeps rows back."""
    found = ["ignore-txn-start-ts"] if p.feed.get("filter.ignore-txn-start-ts") else []
    for one in p.feed.event_filters:
        if not keeps_something(texts(one.get("matcher"))):
            continue
        found += [event for event in texts(one.get("ignore-event")) if event in _OF_ROWS]
        found += [name for name in (*EXPRESSIONS, "ignore-update-only-columns") if one.get(name)]
    return list(dict.fromkeys(found))


def _lets_nothing_through(p: DoctorInput) -> bool:
    rules = [rule for rule in p.feed.get("filter.rules") if keeps_something([rule])]
    return all(_SYSTEM.fullmatch(rule.strip()) for rule in rules)


def _ignored_keys(p: DoctorInput, prefix: str, protocols: tuple[str, ...]) -> list[str]:
    if not p.protocol or p.uses(*protocols):
        return []
    return [path.rpartition(".")[2] for path in p.feed.given if path.rpartition(".")[2].startswith(prefix)]


def _of_other_sinks(p: DoctorInput) -> list[str]:
    found = [path for path in p.feed.given if path.startswith(OTHER_SINKS)] if p.feed.on_kafka else []
    return found + ["safe-mode"] * bool(p.feed.on_kafka and p.feed.get("safe-mode"))


def _uses_tls(p: DoctorInput) -> bool:
    return bool(p.feed.get("enable-tls") or p.feed.get("ca"))


def _of_login(p: DoctorInput) -> list[str]:
    names = ("sasl-user", "sasl-password")
    return [name for name in names if p.feed.is_given(name)] if not p.feed.get("sasl-mechanism") else []


def _of_large(p: DoctorInput) -> Iterator[str]:
    if p.feed.get(_LARGE + "large-message-handle-option") != "claim-check":
        yield from (name for name in ("claim-check-storage-uri", "claim-check-raw-value") if p.feed.get(_LARGE + name))


def _is_local(p: DoctorInput) -> bool:
    place = p.feed.get(_LARGE + "claim-check-storage-uri") or ""
    claims = p.feed.get(_LARGE + "large-message-handle-option") == "claim-check"
    return claims and bool(place) and (place.startswith(("file:", "local:")) or "://" not in place)


def _without_port(p: DoctorInput) -> list[str]:
    return [host for host in p.feed.hosts if not _PORT.search(host)] if p.feed.on_kafka else []


def _redo_level(p: DoctorInput) -> list[str]:
    level = p.feed.get("consistent.level") or "none"
    return [level] if level not in ("none", "eventual") else []


IGNORED: Final = (
    # ---- rows
    DoctorRule("rows-filtered", "warning", _kept_back,
         "Filters keep rows back ({what}): tables downstream are not TiDB's, and a row that is kept back once may stay "
         "as it was for good", "Let all rows through, and leave out what is not wanted where the messages are read",
         _FILTER),
    DoctorRule("no-table", "warning", _lets_nothing_through,
         "filter.rules let no table through: patterns with `!` only take out, and TiCDC never sends system schemas",
         "Begin with '*.*' or with the tables that are wanted", _FILTER),
    # ---- passed over
    DoctorRule("extension-ignored", "info",
         lambda p: p.uses("open", "craft", "simple") and p.feed.extension,
         "enable-tidb-extension does nothing with this protocol", "Leave it out", _CODEC),
    DoctorRule("row-key-ignored", "warning",
         lambda p: bool(p.feed.get("output-row-key")) and not (
             p.uses("canal-json") and p.feed.extension and p.feed.given.get(_ROW_KEY) == "sink-uri"),
         "output-row-key does nothing here: TiCDC reads it from the sink URI only, for canal-json with the TiDB "
         "extension", "Write it into the sink URI beside enable-tidb-extension=true, or leave it out", _CODEC),
    DoctorRule("registry-unused", "warning",
         lambda p: p.uses("open", "craft", "simple", "canal-json") and (p.registry is not None or p.feed.uses_glue),
         "The schema registry is not used with this protocol", "Leave it out", _CODEC),
    DoctorRule("avro-settings-ignored", "info", lambda p: _ignored_keys(p, "avro-", _AVRO),
         "Settings of Avro that do nothing with this protocol: {what}", "Leave them out", _CODEC),
    DoctorRule("login-ignored", "warning", _of_login,
         "TiCDC does not log in with {what}: no sasl-mechanism is given", "Set sasl-mechanism, such as PLAIN", _KAFKA),
    DoctorRule("scheme-without-tls", "warning",
         lambda p: p.feed.scheme == "kafka+ssl" and not _uses_tls(p),
         "kafka+ssl:// alone does not turn TLS on: TiCDC connects without it",
         "Set enable-tls=true, or ca, cert and key", _KAFKA),
    DoctorRule("claim-check-ignored", "warning", lambda p: list(_of_large(p)),
         "{what} without large-message-handle-option claim-check does nothing: a row that is too large goes into no "
         "file",
         "Set large-message-handle-option = 'claim-check'", "ticdc pkg/config/large_message.go"),
    DoctorRule("claim-check-local", "warning", _is_local,
         "claim-check-storage-uri is a folder on the disk of each TiCDC server: the files of a table lie where it was "
         "written, and nobody else has them", "Use an object store, or a folder that all servers and readers share",
         "ticdc pkg/sink/kafka/claimcheck"),
    DoctorRule("broker-without-port", "error", _without_port,
         "Brokers without a port: {what}. TiCDC's client for Kafka takes none by itself and can't connect",
         "Write HOST:PORT for each broker", _KAFKA),
    DoctorRule("redo-level-unknown", "warning", _redo_level,
         "consistent.level {what} is none that TiCDC knows: it keeps no redo log, and says nothing",
         "Write level = 'eventual', or leave it out", "ticdc pkg/redo/config.go"),
    DoctorRule("other-sinks", "info", _of_other_sinks,
         "Settings of other sinks that do nothing with Kafka: {what}", "Leave them out", "ticdc pkg/config/sink.go"),
)  # fmt: skip
