"""TiCDC's Debezium messages as JSON: `{"payload":…,"schema":…}`, payload first; as a whole maybe compressed."""

from __future__ import annotations

from typing import Any

from schemas.codec import inflate, json_exact
from schemas.errors import WireError
from schemas.wire.framing import MAX_MESSAGE

_PAYLOAD, _SCHEMA = '{"payload":', ',"schema":'


def malformed(where: str, details: str) -> WireError:
    """The error of a message that is not what TiCDC writes."""
    return WireError("MALFORMED", where=where, details=details)


def parse(data: bytes, where: str) -> tuple[dict[str, Any], str]:
    """Message → (payload, text of what follows it). WireError MALFORMED, TOO_LARGE.

    TiCDC writes the payload first, so that the schema's text, the same in every message of a table version, can be
    looked up instead of parsed. A document in another order or with spaces is parsed as a whole.
    """
    if len(data) > MAX_MESSAGE:
        raise WireError("TOO_LARGE", where=where, details=f"{len(data)} bytes, at most {MAX_MESSAGE}")
    try:
        text = json_exact.document(inflate.content(data, MAX_MESSAGE))
        payload, rest = None, ""
        if text.startswith(_PAYLOAD + "{"):
            payload, end = json_exact.decode_from(text, len(_PAYLOAD))
            rest = text[end:]
        if rest != "}" and not (rest.startswith(_SCHEMA + "{") and rest.endswith("}}")):
            payload = None  # it may be large
            whole = json_exact.decode(text)
            payload, schema = whole["payload"], whole.get("schema")
            rest = "}" if schema is None else f"{_SCHEMA}{json_exact.dump(schema)}}}"
        if not isinstance(payload, dict):
            raise TypeError("the payload is not an object")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = "no payload" if isinstance(error, KeyError) else str(error)
        raise malformed(where, f"not a TiCDC Debezium message: {reason}"[:300]) from error
    return payload, rest


def schema_of(rest: str) -> dict[str, Any] | None:
    """What follows the payload → the schema, None with debezium-disable-schema. ValueError."""
    if rest == "}":
        return None
    schema, end = json_exact.decode_from(rest, len(_SCHEMA))
    if rest[end:] != "}" or not isinstance(schema, dict):
        raise ValueError("the message goes on after its schema")
    return schema
