"""Whatever is sent as Protobuf, only the two errors of a schema come out, and what is accepted can be used."""

import base64
import random
from collections.abc import Sequence
from typing import Any

from google.protobuf import descriptor_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.each import each
from tests.support.service import Client, short_and_long
from ticdc_bridge.service.schema_types.base import SchemaParseError, SchemaValidityError
from ticdc_bridge.service.schema_types.protobuf.descriptor import from_base64
from ticdc_bridge.service.schema_types.protobuf.model import Enum, Message
from ticdc_bridge.service.schema_types.protobuf.schema import ProtobufSchema, parse_protobuf

HEAD = 'syntax = "proto3";\n'


def read(text: str, *, strict: bool = True) -> ProtobufSchema:
    return parse_protobuf(text, (), strict)


HOSTILE = {
    "nested": HEAD + "message A {" * 100_000, "option": HEAD + "option a = " + "{a " * 100_000,
    "comment": HEAD + "/*" * 100_000, "escapes": HEAD + 'import "' + "\\x1" * 50_000, "base64": "A" * 100_000,
    "not base64": "AAAA=AAA", "descriptor": base64.b64encode(b"\x22\xff\xff\xff\x7f").decode(),
    "deep descriptor": base64.b64encode(
        descriptor_pb2.FileDescriptorProto(message_type=[{"name": "A", "nested_type": [{"name": "B"}]}])
        .SerializeToString()
        .replace(b"B", b"\xff")
    ).decode(),
    "field number": HEAD + "message A { int32 a = -2147483649; }", "null": HEAD + "message A { int32 \x00 = 1; }",
    "surrogates": HEAD + 'option a = "\ud800";', "unreadable name": base64.b64encode(b"\x22\x05\x0a\x03a b").decode(),
}  # fmt: skip


@each("name", HOSTILE)
def test_hostile_texts_over_http(shared_client: Client, name: str) -> None:
    body = {"schema": HOSTILE[name], "schemaType": "PROTOBUF"}
    # A look-up reads as leniently as what is stored was read: a text that can't be registered may not be there.
    fits = dict.fromkeys(HOSTILE, (422,)) | {"surrogates": (200, 404, 422), "unreadable name": (404, 422)}
    for path in ("/subjects/h/versions", "/subjects/h?normalize=true", "/compatibility/subjects/h/versions/latest"):
        assert shared_client.send("POST", path, body).status in fits[name]


def test_references_that_lead_nowhere_or_in_circles(shared_client: Client) -> None:
    """A circle needs two subjects that name each other's later versions, which are not there yet: 422, not a loop."""

    def send(subject: str, text: str, *references: tuple[str, str, int]) -> int:
        named = [{"name": name, "subject": other, "version": version} for name, other, version in references]
        body = {"schema": HEAD + text, "schemaType": "PROTOBUF", "references": named}
        return shared_client.send("POST", f"/subjects/{subject}/versions", body).status

    assert send("c1", 'import "c2.proto"; message A { C2 b = 1; }', ("c2.proto", "c2", 1)) == 422
    assert send("c1", "message C1 {}") == 200
    assert send("c2", 'import "c1.proto"; message C2 { C1 a = 1; }', ("c1.proto", "c1", 1)) == 200
    assert send("c1", 'import "c2.proto"; message C1 { C2 b = 1; }', ("c2.proto", "c2", 1)) == 200
    assert send("c2", 'import "c1.proto"; message C2 { C1 a = 1; C1 b = 2; }', ("c1.proto", "c1", 2)) == 200
    assert shared_client.register("avro", '"int"').status == 200
    assert send("c3", "message C3 {}", ("avro.proto", "avro", 1)) == 422
    assert send("avro", "message C3 {}") == 409
    latest = shared_client.get("/subjects/c2/versions/latest?format=serialized")
    assert len(from_base64(latest.json["schema"]).types) == 1


WORDS = st.sampled_from([
    "message", "enum", "oneof", "map", "group", "extend", "extensions", "option", "reserved", "import", "package",
    "service", "rpc", "returns", "stream", "syntax", "public", "weak", "to", "max", "optional", "repeated",
    "required", *"<>{}()[]=;,.:'/\\\n\"", "..", "//", "/*", "*/", "A", "B", "a.b", ".A", "M.E", "int32", "string",
    "(a).b", '"proto3"', '"proto2"', "1", "2", "0x10", "-1", "99999999999", "1e9", "true", "default", "json_name",
    "map_entry", "deprecated", "google.protobuf.Any", "google.protobuf.Struct", "confluent.type.Decimal", "é",
])  # fmt: skip
SOUP = st.lists(WORDS, max_size=40).map(" ".join)
NAMES = st.sampled_from(["A", "B", "C"])
TYPES = st.sampled_from([
    "int32", "string", "bytes", "sint64", "double", "A", "B", "A.B", ".p.A", "map<string, A>", "map<int32, bytes>",
    "google.protobuf.Any", "E", "Nope",
])  # fmt: skip


def fields(label: st.SearchStrategy[str]) -> Any:
    pieces = st.tuples(
        label, TYPES, st.sampled_from("xyz"), st.integers(-1, 4), st.sampled_from(["", " [packed = true]"])
    )
    return pieces.map(lambda entry: f"{entry[0]} {entry[1]} {entry[2]} = {entry[3]}{entry[4]};")


LABELS = st.sampled_from(["", "", "", "optional", "repeated"])
ONEOFS = st.tuples(st.sampled_from("xy"), st.lists(fields(st.just("")), max_size=3)).map(
    lambda entry: f"oneof {entry[0]} {{ {' '.join(entry[1])} }}".replace("map<string, A>", "A").replace(
        "map<int32, bytes>", "B"
    )
)
ENUMS = st.lists(st.integers(-1, 3), max_size=3).map(
    lambda tags: f"enum E {{ {' '.join(f'V{n} = {tag};' for n, tag in enumerate(tags))} }}"
)


def messages(inner: Any) -> Any:
    """Messages of different names; `inner` gives the ones inside."""
    body = st.tuples(
        st.lists(st.one_of(fields(LABELS), fields(LABELS), ONEOFS, ENUMS), max_size=4).map(" ".join), inner
    )
    return st.dictionaries(NAMES, body, max_size=3).map(
        lambda found: "".join(f"message {name} {{ {pieces[0]} {pieces[1]} }}" for name, pieces in found.items())
    )


MESSAGES: Any = st.recursive(st.just(""), messages, max_leaves=4)
SCHEMAS: Any = st.tuples(
    st.sampled_from([HEAD, HEAD, HEAD, 'syntax = "proto2";\n', ""]),
    st.sampled_from(["package p;", "package p;", "package p;", "", "package q.r;"]),
    MESSAGES,
    st.sampled_from(["", "enum E { Z = 0; }"]),
    st.sampled_from(["", "message B { int32 x = 1; } message A { B x = 1; message B { string y = 2; } }"]),
).map(lambda entry: "".join(entry[:2]) + (entry[4] or entry[2]) + entry[3])


def understood(text: str) -> ProtobufSchema | None:
    try:
        return read(text)
    except (SchemaParseError, SchemaValidityError):
        return None


def distinct(types: Sequence[Message | Enum]) -> bool:
    """True if no name or number is there twice, which Confluent accepts and then compares by the last."""
    messages = [type_ for type_ in types if isinstance(type_, Message)]
    if len({type_.name for type_ in types}) < len(types):
        return False
    for message in messages:
        fields = [*message.fields, *(field for oneof in message.oneofs for field in oneof.fields)]
        if len({field.tag for field in fields}) < len(fields) or len({oneof.name for oneof in message.oneofs}) < len(
            message.oneofs
        ):
            return False
    return all(distinct(entry.types) for entry in messages)


def use(schemas: Sequence[ProtobufSchema | None]) -> None:
    """Everything the service does with a schema."""
    existing = [schema for schema in schemas if schema is not None]
    for entry in existing:
        assert read(entry.text, strict=False).text == entry.text
        try:
            back = from_base64(entry.format_text("serialized"))
        except ValueError:
            continue
        assert len(back.types) == len(entry.file.types)
        assert isinstance(entry.format_text("ignore_extensions"), str)
    for old in existing:
        for new in existing:
            for message in new.differences(old, "new", "old"):
                assert message.startswith(("{errorType:", "Unexpected exception"))


@short_and_long(60, 300)
def test_only_two_errors(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(SOUP, SCHEMAS, SCHEMAS)
    def holds(soup: str, one: str, two: str) -> None:
        understood(soup)
        schemas = [understood(one), understood(two)]
        use(schemas)
        for schema in schemas:
            if schema is not None and distinct(schema.file.types):
                assert schema.differences(schema, "new", "old") == []

    holds()


@short_and_long(60, 300)
def test_damaged_texts_and_descriptors(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(SCHEMAS, st.randoms(use_true_random=False), st.integers(1, 8))
    def holds(text: str, dice: random.Random, times: int) -> None:
        schema = understood(text)
        data = bytearray(base64.b64decode(schema.format_text("serialized")) if schema else text.encode())
        letters = [*text, " "]
        for _ in range(times):
            letters[dice.randrange(len(letters))] = dice.choice('{}[]()<>"=;/\\.0aA\n')
            if data:
                data[dice.randrange(len(data))] = dice.randrange(256)
        use([understood("".join(letters)), understood(base64.b64encode(bytes(data)).decode())])

    holds()
