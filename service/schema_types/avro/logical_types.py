"""Changes that Avro's rules do not see and that make readers take one value for another.

Avro compares physical types: `bytes` stays `bytes` when a decimal's scale changes. TiCDC makes such changes when a
column's DECIMAL(p,s) is altered, or `avro-decimal-handling-mode` is switched. Also here: which logical types Avro takes
for such (Apache Avro 1.12, `LogicalTypes`).
"""

import math
from typing import Any, Final

from ticdc_bridge.service.schema_types.avro import model
from ticdc_bridge.service.schema_types.base import LogicalChange

_PROMOTED: Final = frozenset({"bytes", "string"})

# Logical type → the types it may stand on, and the size of a fixed (None: any).
_STANDS_ON: Final[dict[str, tuple[tuple[str, int | None], ...]]] = {
    "date": (("int", None),),
    "time-millis": (("int", None),),
    "time-micros": (("long", None),),
    **{
        f"{zone}timestamp-{unit}": (("long", None),)
        for zone in ("", "local-")
        for unit in ("millis", "micros", "nanos")
    },
    "uuid": (("string", None), ("fixed", 16)),
    "duration": (("fixed", 12),),
    "big-decimal": (("bytes", None),),
    "decimal": (("bytes", None), ("fixed", None)),
}


def is_logical_type(node: model.Node) -> bool:
    """True if Avro takes the `logicalType` of a type for one; what it does not know or finds invalid it ignores."""
    name = node.props.get("logicalType")
    types = _STANDS_ON.get(name, ()) if isinstance(name, str) else ()
    size = node.size if isinstance(node, model.Fixed) else None
    if not any(node.kind == kind and wanted in (None, size) for kind, wanted in types):
        return False
    if name != "decimal":
        return True
    precision, scale = node.props.get("precision"), scale_of(node)
    if type(precision) is not int or type(scale) is not int:
        return False
    most = 2**31 - 1 if size is None else math.floor(math.log10(2) * (8 * size - 1))
    return 0 < precision <= most and 0 <= scale <= precision


def changes(old: model.Node, new: model.Node) -> list[LogicalChange]:
    """Every logical change from `old` to `new`, in the order of the new schema."""
    return _Comparison().compare(old, new, "")


class _Comparison:
    def __init__(self) -> None:
        self.seen: set[tuple[int, int]] = set()

    def compare(self, old: model.Node, new: model.Node, path: str) -> list[LogicalChange]:
        if isinstance(old, model.Union) or isinstance(new, model.Union):
            return [change for entry, two in pairs(old, new) for change in self.compare(entry, two, path)]
        match old, new:
            case model.Array(), model.Array():
                return self.compare(old.items, new.items, f"{path}[]")
            case model.Map(), model.Map():
                return self.compare(old.values, new.values, f"{path}{{}}")
            case model.Record(), model.Record():
                return self.fields(old, new, path)
        # The physical types of two parts that hold a value may not fit anyway.
        readable = old.kind == new.kind or {old.kind, new.kind} == _PROMOTED
        before, after = type_text(old), type_text(new)
        if readable and ("logicalType" in old.props or "logicalType" in new.props) and before != after:
            return [LogicalChange(path, before, after, misreading(old, new))]
        return []

    def fields(self, old: model.Record, new: model.Record, path: str) -> list[LogicalChange]:
        pair = (id(old), id(new))
        if pair in self.seen:
            return []
        self.seen.add(pair)
        by_name = {field.name: field for field in old.fields}
        result: list[LogicalChange] = []
        for field in new.fields:
            before = by_name.get(field.name)
            if before is None and field.aliases:
                before = next((by_name[alias] for alias in field.aliases if alias in by_name), None)
            if before is not None and not model.is_same_plain(before.type, field.type):
                result += self.compare(before.type, field.type, f"{path}.{field.name}" if path else field.name)
        return result


def pairs(old: model.Node, new: model.Node) -> list[tuple[model.Node, model.Node]]:
    """Which branch is read as which: the one of the same type, else the one that bytes and strings are promoted to."""
    olds, news = (node.branches if isinstance(node, model.Union) else [node] for node in (old, new))
    result = []
    for previous in olds:
        same = [two for two in news if model.union_name(two) == model.union_name(previous)]
        other = [two for two in news if {previous.kind, two.kind} == _PROMOTED]
        result += [(previous, two) for two in (same or other)[:1]]
    return result


def type_text(node: model.Node) -> str:
    """A type with what gives its bytes a meaning, e.g. `bytes decimal(10,2)`."""
    logical = node.props.get("logicalType")
    if logical == "decimal":
        return f"{node.kind} decimal({node.props.get('precision', '?')},{scale_of(node)})"
    return node.kind if logical is None else f"{node.kind} {logical}"


def scale_of(node: model.Node) -> Any:
    return node.props.get("scale", 0)


def misreading(old: model.Node, new: model.Node) -> str:
    """The fault that appears when one schema reads what the other wrote."""
    decimals = old.props.get("logicalType") == new.props.get("logicalType") == "decimal"
    before, after = scale_of(old), scale_of(new)
    if decimals and before != after:
        return (
            f"the stored integer has no point, so 123 written as scale {before} is read as scale {after}, a value that "
            "is wrong by a power of ten"
        )
    if decimals:
        return "a reader with the smaller precision can't hold, or cuts, values of the larger one"
    if {old.kind, new.kind} == _PROMOTED:
        return "the bytes of the number are read as text, or text as the bytes of a number"
    return "the same stored number is taken for something else"
