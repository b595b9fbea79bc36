"""Names as far as Confluent's server checks them where nothing else of a new schema is checked: when it is imported,
looked up, or `validateNewSchemas` is off (its `AvroSchemaUtils.validateNames`, Avro's `NameValidator.UTF_VALIDATOR`).
"""

from __future__ import annotations

from collections.abc import Iterable

from ticdc_bridge.service.schema_types.avro.model import Enum, NamedType, Record
from ticdc_bridge.service.schema_types.avro.parse import AvroSchemaError

_LAST_UNIT = "\uffff"  # Java looks at UTF-16 units, and half of a longer character is no letter


def check_names(types: Iterable[NamedType]) -> None:
    """Of types, their fields and symbols; namespaces may be anything. Raises AvroSchemaError."""
    for one in types:
        check_name(one.name)
        for field in one.fields if isinstance(one, Record) else ():
            check_name(field.name)
        for symbol in one.symbols if isinstance(one, Enum) else ():
            check_name(symbol)


def check_name(name: str) -> None:
    """Raises AvroSchemaError for one that is not of letters, decimal digits and `_`, or begins with a digit."""
    if name.isascii() and name.isidentifier():
        return
    if not name:
        raise AvroSchemaError("Empty name")
    if not _is_letter(name[0]):
        raise AvroSchemaError(f"Illegal initial character: {name}")
    if not all(_is_letter(one) or one.isdecimal() for one in name):
        raise AvroSchemaError(f"Illegal character in: {name}")


def _is_letter(one: str) -> bool:
    return one == "_" or (one.isalpha() and one <= _LAST_UNIT)
