"""Options of a format that is read or written: TiCDC's options by its names, and a few of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.reasons import shown

_CHOICES = {
    "avro_decimal_handling_mode": ("precise", "string"),
    "avro_bigint_unsigned_handling_mode": ("long", "string"),
    "on_lossy": ("error", "flag"),
    "definition_mismatch": ("warn", "error"),
    "craft_float": ("auto", "damaged", "sound"),
    "large_message_handle_option": ("none", "handle-key-only", "claim-check"),
    "large_message_handle_compression": ("none", "snappy", "lz4"),
    "encoding_format": ("json", "avro"),
    "decimal_handling_mode": ("auto", "precise", "string", "double"),
    "bigint_unsigned_handling_mode": ("long", "precise"),
    "time_precision_mode": (
        "auto", "adaptive_time_microseconds", "adaptive", "connect", "isostring", "microseconds", "nanoseconds",
    ),
    "binary_handling_mode": ("auto", "bytes", "base64", "base64-url-safe", "hex"),
    "skipped_operations": ("t", "none"),
    "update_without_before": ("auto", "upsert", "key-before", "null"),
    "source_connector": ("mysql", "TiCDC"),
    "csv_binary_encoding_method": ("base64", "hex"),
}  # fmt: skip
_KINDS: dict[type, str] = {bool: "true or false", int: "a whole number", str: "a text"}
# Options of TiCDC's that say nothing about the formats written here, or name what a golden case was made with.
_IGNORED = {
    "protocol", "name", "topic_rule", "claim_check_storage_uri", "build_at_end", "float32_columns_dropped",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one side of a transcode. Defaults are TiCDC's own.

    time_zone: zone of TIMESTAMP text in Avro (TiCDC writes the changefeed's zone, the message doesn't say which).
    keyspace and cluster_id: TiCDC's names of itself in Avro namespaces and in Debezium's source. on_lossy: what to do
    with a value that the target can't hold exactly. definition_mismatch: what to do with a message that its table's
    definition does not describe: "warn" reads it without the definition, flagged. craft_float: whether TiCDC damaged
    the FLOATs of Craft messages that a number follows ("auto": where the messages prove it). open_varchar_base64:
    VARCHAR and CHAR of the Open Protocol are base64, as releases of 2020 wrote them (read only). An option that a
    format does not have changes nothing there.

    From decimal_handling_mode on, the options of Debezium's MySQL connector, by its names with `_` for `.` (and
    encoding_format, debezium_disable_schema). "auto": read, what the message says, and an error where it doesn't;
    written, DECIMAL precise (as text in JSON without schema), time adaptive_time_microseconds, binary bytes.
    update_without_before: an update whose old row is not known is written as op c ("upsert", what "auto" is for the
    connectors' forms), as op u with the key's columns as its old row ("key-before"), or without one ("null", as TiCDC
    does, what "auto" is for its forms). topic_prefix: cluster_id where it is "". source_connector: what
    `source.connector` says of the writer. unavailable_value_placeholder: what stands in place of values that the binlog
    left out (read only).

    Of rows that a transform flattened (read only): add_fields_prefix, add_headers_prefix: before the names of what it
    added. table: db.table of rows that do not say whose they are; table_from_topic: their topic is called
    prefix.db.table.

    csv_…: [sink.csv] of a changefeed to a storage service, whose files are read (`--in FOLDER`). terminator: of [sink];
    "": CR LF or LF.
    """

    enable_tidb_extension: bool = False
    avro_decimal_handling_mode: str = "precise"
    avro_bigint_unsigned_handling_mode: str = "long"
    avro_include_before_value: bool = False
    debezium_disable_schema: bool = False
    debezium_include_start_ts: bool = False
    no_old_value: bool = False
    only_output_updated_columns: bool = False
    delete_only_output_handle_key_columns: bool = False
    avro_enable_watermark: bool = False
    enable_row_checksum: bool = False
    max_batch_size: int = 16
    max_message_bytes: int = 10485760
    large_message_handle_option: str = "none"
    large_message_handle_compression: str = "none"
    encoding_format: str = "json"
    content_compatible: bool = False
    open_varchar_base64: bool = False
    time_zone: str = "UTC"
    keyspace: str = "default"
    cluster_id: str = "default"
    on_lossy: str = "error"
    definition_mismatch: str = "warn"
    craft_float: str = "auto"
    decimal_handling_mode: str = "auto"
    bigint_unsigned_handling_mode: str = "long"
    time_precision_mode: str = "auto"
    binary_handling_mode: str = "auto"
    tombstones_on_delete: bool = True
    skipped_operations: str = "t"
    update_without_before: str = "auto"
    column_propagate_source_type: bool = False
    topic_prefix: str = ""
    source_connector: str = "mysql"
    unavailable_value_placeholder: str = "__debezium_unavailable_value"
    add_fields_prefix: str = "__"
    add_headers_prefix: str = "__"
    table: str = ""
    table_from_topic: bool = False
    csv_delimiter: str = ","
    csv_quote: str = '"'
    csv_null: str = "\\N"
    csv_binary_encoding_method: str = "base64"
    terminator: str = ""

    @classmethod
    def of(cls, settings: Mapping[str, Any], **overrides: Any) -> Options:
        """Options from a mapping such as a golden's `options`. SetupError USAGE for unknown or unusable ones."""
        defaults = {f.name: f.default for f in fields(cls)}
        chosen = {k: v for k, v in {**settings, **overrides}.items() if k not in _IGNORED}
        for name, value in chosen.items():
            if name not in defaults:
                raise SetupError("USAGE", details=f"option {name!r} is not known; known: {', '.join(sorted(defaults))}")
            if type(value) is not type(defaults[name]):
                details = f"option {name}={shown(value)}: {_KINDS[type(defaults[name])]} is needed"
                raise SetupError("USAGE", details=details)
            if name in ("csv_delimiter", "unavailable_value_placeholder") and not value:
                raise SetupError("USAGE", details=f"option {name}: one character or more are needed")
            if name == "csv_quote" and len(str(value)) > 1:
                raise SetupError("USAGE", details="option csv_quote: one character is needed, or none")
            if name in _CHOICES and value not in _CHOICES[name]:
                raise SetupError("USAGE", details=f"option {name}={value!r}: choose {' or '.join(_CHOICES[name])}")
        db, _, table = chosen.get("table", "").partition(".")
        if chosen.get("table") and not (db and table):
            raise SetupError("USAGE", details=f"option table={chosen['table']!r}: db.table is needed")
        try:
            values.zone(chosen.get("time_zone", "UTC"))
        except ValueError as error:
            raise SetupError("USAGE", details=str(error)) from error
        return replace(cls(), **chosen)
