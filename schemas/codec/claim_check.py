"""The file that a claim-check message points to: {"key":base64|null,"value":base64} of the whole message, or, with
claim-check-raw-value, the value as it is.

Upstream ticdc `pkg/sink/codec/common/message.go` (ClaimCheckMessage) and `canal/canal_json_decoder.go`; readers use the
file's base name only. Compressed is the value, not the file.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ticdc_bridge.schemas.codec import json_exact
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import Hint, WireError
from ticdc_bridge.schemas.model.ports import ClaimChecks
from ticdc_bridge.schemas.model.reasons import reason_of

T = TypeVar("T")


def fetch_message(claims: ClaimChecks | None, uri: str) -> tuple[bytes | None, bytes]:
    """Key and value of the message that a claim-check's URI stands for.

    WireError CLAIM_CHECK where nothing can be fetched, or the file is no claim-check of key and value.
    """
    file = _fetch(claims, uri)
    try:
        return _key_and_value(json_exact.decode(json_exact.document(file)))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _no_file_error(uri, reason_of(error)) from error


def fetch_value(claims: ClaimChecks | None, uri: str, read: Callable[[bytes], T]) -> T:
    """Reads the value that a claim-check's URI stands for, with `read`; the file has it wrapped or as it is.

    WireError CLAIM_CHECK where nothing can be fetched, or `read` finds no message in the file (MALFORMED).
    """
    file = _fetch(claims, uri)
    try:
        document = json_exact.decode(json_exact.document(file))
    except ValueError:  # compressed, or Avro
        document = None
    try:
        wrapped = isinstance(document, dict) and document.keys() <= {"key", "value"}
        value = _key_and_value(document)[1] if wrapped else file
    except (ValueError, LookupError) as error:
        raise _no_file_error(uri, reason_of(error)) from error
    try:
        return read(value)
    except WireError as error:
        if error.code != "MALFORMED":
            raise
        raise _no_file_error(uri, error.detail) from error


def check_row(uri: str, of_message: Sequence[Any], of_file: Sequence[Any]) -> None:
    """WireError CLAIM_CHECK where a file has no row, or another. Of both: where the row is, and whose, where said."""
    if of_file[0]:
        raise WireError("CLAIM_CHECK", uri=uri[:300], details="the file points to another file")
    if any(None not in pair and str(pair[0]) != str(pair[1]) for pair in zip(of_file[1:], of_message[1:], strict=True)):
        raise WireError("CLAIM_CHECK", uri=uri[:300], details="the file holds another table's or transaction's row")


def _fetch(claims: ClaimChecks | None, uri: str) -> bytes:
    if claims is None:
        raise WireError("CLAIM_CHECK", uri=uri[:300], details=f"give a folder that has the file ({Hint.CLAIM_CHECKS})")
    return claims.fetch(uri.rpartition("/")[2])


def _key_and_value(content: Any) -> tuple[bytes | None, bytes]:
    key, value = content.get("key"), json_exact.string(content["value"], "value")
    key = None if key is None else values.base64_bytes(json_exact.string(key, "key"))
    return key, values.base64_bytes(value)


def _no_file_error(uri: str, reason: str) -> WireError:
    return WireError("CLAIM_CHECK", uri=uri[:300], details=f"not a claim-check file: {reason}"[:200])
