"""Can data written with one Avro schema be read with another? The verdicts and messages of Confluent.

Rules: Apache Avro 1.12, `SchemaCompatibility`. Logical types, docs, order and properties are not looked at. Pairs of
nodes are remembered, so recursive schemas end and shared types are compared once.
"""

from dataclasses import dataclass
from typing import Final

from ticdc_bridge.service.schema_types.avro import model
from ticdc_bridge.service.schema_types.avro.canonical import canonical_text
from ticdc_bridge.service.schema_types.base import ComparisonTooLarge

MAX_STEPS: Final = 500_000
"""Fields and branches looked at in one comparison, and differences ten times: a few seconds."""
_DIFFERENCE_STEPS: Final = 10
_MANY_BRANCHES: Final = 30

_PROMOTIONS: Final = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}

# {path}, {reader}, {writer} are filled in; {info} is the additional information.
_DESCRIPTIONS: Final = {
    "NAME_MISMATCH": "The name of the schema has changed (path '{path}')",
    "FIXED_SIZE_MISMATCH": "The size of FIXED type field at path '{path}' in the {reader} schema does not match with "
    "the {writer} schema",
    "MISSING_ENUM_SYMBOLS": "The {reader} schema is missing enum symbols '{info}' at path '{path}' in the {writer} "
    "schema",
    "READER_FIELD_MISSING_DEFAULT_VALUE": "The field '{info}' at path '{path}' in the {reader} schema has no default "
    "value and is missing in the {writer} schema",
    "TYPE_MISMATCH": "The type (path '{path}') of a field in the {reader} schema does not match with the {writer} "
    "schema",
    "MISSING_UNION_BRANCH": "The {reader} schema is missing a type inside a union field at path '{path}' in the "
    "{writer} schema",
}


@dataclass(frozen=True, slots=True)
class AvroIncompatibility:
    """`path` is a JSON pointer into the reader."""

    type: str
    path: tuple[str, ...]
    info: str

    def message(self, reader: str, writer: str) -> str:
        """Confluent's text; `reader` and `writer` are the words "new" and "old" in the order of the direction."""
        pointer = "/" + "/".join(self.path)
        what = _DESCRIPTIONS[self.type].format(path=pointer, reader=reader, writer=writer, info=self.info)
        return f"{{errorType:'{self.type}', description:'{what}', additionalInfo:'{self.info}'}}"


class AmbiguousAlias(ValueError):
    """A reader field and its aliases match several fields of the writer."""


def incompatibilities(reader: model.Node, writer: model.Node) -> list[AvroIncompatibility]:
    """What keeps `reader` from reading what `writer` wrote. Raises AmbiguousAlias, ComparisonTooLarge."""
    return _Comparison().compare(reader, writer, ())


class _Comparison:
    def __init__(self) -> None:
        self.seen: dict[tuple[int, int], list[AvroIncompatibility]] = {}
        self.steps_left = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Before the work: raises ComparisonTooLarge when all so far is too much."""
        self.steps_left -= steps
        if self.steps_left < 0:
            raise ComparisonTooLarge(f"more than {MAX_STEPS} steps to compare two schemas")

    def compare(self, reader: model.Node, writer: model.Node, path: tuple[str, ...]) -> list[AvroIncompatibility]:
        if model.names_nothing(reader) or model.names_nothing(writer):
            return self.calculate(reader, writer, path)  # one such node may stand in many places
        pair = (id(reader), id(writer))
        if pair not in self.seen:
            self.seen[pair] = []  # while the pair is being compared, meeting it again proves nothing against it
            self.seen[pair] = self.calculate(reader, writer, path)
        return self.seen[pair]

    def calculate(self, reader: model.Node, writer: model.Node, path: tuple[str, ...]) -> list[AvroIncompatibility]:
        if isinstance(writer, model.Union):
            return self.from_union(reader, writer, path)
        match reader, writer:
            case model.Array(), model.Array():
                return self.compare(reader.items, writer.items, (*path, "items"))
            case model.Map(), model.Map():
                return self.compare(reader.values, writer.values, (*path, "values"))
            case model.Fixed(), model.Fixed():
                return names(reader, writer, path) + sizes(reader, writer, path)
            case model.Enum(), model.Enum():
                return names(reader, writer, path) + symbols(reader, writer, path)
            case model.Record(), model.Record():
                return names(reader, writer, path) + self.fields(reader, writer, path)
            case model.Union(), _:
                self.spend(len(reader.branches))
                # Of many a name alone tells; with fewer, Avro's own way, which remembers what it took for granted.
                skip = named_otherwise if len(reader.branches) > _MANY_BRANCHES else lambda _, __: False
                fits = any(
                    not skip(entry, writer) and not self.compare(entry, writer, path) for entry in reader.branches
                )
                return [] if fits else [lacking_branch(writer, path)]
        if reader.kind == writer.kind or writer.kind in _PROMOTIONS.get(reader.kind, ()):
            return []
        info = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
        return [AvroIncompatibility("TYPE_MISMATCH", path, info)]

    def from_union(self, reader: model.Node, writer: model.Union, path: tuple[str, ...]) -> list[AvroIncompatibility]:
        all_problems = []
        for index, branch in enumerate(writer.branches):
            at = (*path, str(index))
            problems = self.compare(reader, branch, at)
            self.spend(1 + _DIFFERENCE_STEPS * len(problems))
            if problems and isinstance(reader, model.Union):
                problems = [lacking_branch(branch, at)]
            all_problems += problems
        return all_problems

    def fields(self, reader: model.Record, writer: model.Record, path: tuple[str, ...]) -> list[AvroIncompatibility]:
        problems: list[AvroIncompatibility] = []
        self.spend(len(reader.fields) + len(writer.fields))
        by_name = {field.name: field for field in writer.fields}
        for index, field in enumerate(reader.fields):
            writer_field = find_matching(reader, index, writer, by_name) if field.aliases else by_name.get(field.name)
            if writer_field is not None and model.is_same_plain(field.type, writer_field.type):
                continue
            at = (*path, "fields", str(index))
            if writer_field is not None:
                problems += self.compare(field.type, writer_field.type, (*at, "type"))
            elif field.default is model.MISSING:
                if isinstance(field.type, model.Enum) and field.type.default is not None:
                    # Avro compares the enum with the writer record here, which never fits: another text, same verdict.
                    problems += self.compare(field.type, writer, (*at, "type"))
                else:
                    problems.append(AvroIncompatibility("READER_FIELD_MISSING_DEFAULT_VALUE", at, field.name))
        self.spend(_DIFFERENCE_STEPS * len(problems))
        return problems


def find_matching(
    reader: model.Record, index: int, writer: model.Record, by_name: dict[str, model.Field]
) -> model.Field | None:
    """The writer's field of the reader's name or alias. Raises AmbiguousAlias, also for an alias equal to the name."""
    field = reader.fields[index]
    matches = [by_name[name] for name in (field.name, *field.aliases) if name in by_name]
    if len(matches) > 1:
        what = f"{field.name} type:{field.type.kind.upper()} pos:{index}"
        raise AmbiguousAlias(
            f"Reader record field {what} matches multiple fields in writer record schema {canonical_text(writer)}"
        )
    return matches[0] if matches else None


def names(reader: model.NamedType, writer: model.NamedType, path: tuple[str, ...]) -> list[AvroIncompatibility]:
    """The simple names count: a change of namespace is compatible."""
    if reader.name == writer.name or writer.fullname in reader.aliases:
        return []
    return [AvroIncompatibility("NAME_MISMATCH", (*path, "name"), f"expected: {writer.fullname}")]


def named_otherwise(reader: model.Node, writer: model.Node) -> bool:
    return (
        isinstance(reader, model.NamedType) and isinstance(writer, model.NamedType) and names(reader, writer, ()) != []
    )


def sizes(reader: model.Fixed, writer: model.Fixed, path: tuple[str, ...]) -> list[AvroIncompatibility]:
    if reader.size == writer.size:
        return []
    return [
        AvroIncompatibility("FIXED_SIZE_MISMATCH", (*path, "size"), f"expected: {writer.size}, found: {reader.size}")
    ]


def symbols(reader: model.Enum, writer: model.Enum, path: tuple[str, ...]) -> list[AvroIncompatibility]:
    """Symbols the reader lacks matter only when it has no default for them."""
    missing = sorted(set(writer.symbols) - set(reader.symbols))
    if not missing or reader.default is not None:
        return []
    return [AvroIncompatibility("MISSING_ENUM_SYMBOLS", (*path, "symbols"), f"[{', '.join(missing)}]")]


def lacking_branch(writer: model.Node, path: tuple[str, ...]) -> AvroIncompatibility:
    return AvroIncompatibility("MISSING_UNION_BRANCH", path, f"reader union lacking writer type: {writer.kind.upper()}")
