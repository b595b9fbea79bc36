"""Protobuf texts: read, written and compared; whatever is sent, only the two errors of a schema come out."""

from __future__ import annotations

import base64
import importlib
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import google.type
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from service.registry.compat.protobuf import java_order
from service.registry.model import NotParsed, NotValid, Referenced
from service.registry.protobuf.canonical import text_of
from service.registry.protobuf.descriptor import file_of, from_base64
from service.registry.protobuf.known import known_types
from service.registry.protobuf.model import Enum, File, Message
from service.registry.protobuf.option_text import java_number
from service.registry.protobuf.parse import parse, unix_path
from service.registry.protobuf.reader import MAX_DEPTH
from service.registry.protobuf.schema import ProtobufSchema, parse_protobuf
from service.registry.protobuf.types import OWN, Types
from tests.service.support import Client

SHIPPED = Path(next(iter(google.type.__path__))).parent.parent
HEAD = 'syntax = "proto3";\n'


def read(text: str, *referenced: Referenced, strict: bool = True) -> ProtobufSchema:
    return parse_protobuf(text, referenced, strict)


def normalized(file: File, *others: File) -> str:
    types = Types(known_types())
    for other in (*others, file):
        types.add(other, OWN)
    return text_of(file, scope=types.scope(file.package), ignore_extensions=True)


def test_googles_files_mean_what_protoc_says() -> None:
    """The texts and the compiled descriptors of the packages that are installed anyway give the same schema."""
    texts = {
        str(path.relative_to(SHIPPED)): parse(path.read_text("utf-8")) for path in SHIPPED.glob("google/**/*.proto")
    }
    compiled = {}
    for name in texts:
        proto = descriptor_pb2.FileDescriptorProto()
        importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2").DESCRIPTOR.CopyToProto(proto)
        compiled[name] = file_of(proto)
    assert len(texts) > 50
    for name, file in texts.items():
        assert normalized(file, *texts.values()) == normalized(compiled[name], *compiled.values()), name


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("google/**/*.proto")), ids=lambda path: path.name)
def test_a_canonical_text_stays(path: Path) -> None:
    text = text_of(parse(path.read_text("utf-8")))
    assert text_of(parse(text)) == text


OPTIONS = (
    HEAD
    + """package p;
import "b.proto"; import "a.proto"; import "b.proto"; import weak "lost.proto"; import public 'x\\\\.//y.proto';
option (zeta).b.c = 1.23456; option (confluent.file_meta) = {doc: "d" tags: ["x"]}; option deprecated = true;
message Opt { Sub sub = 1; repeated int32 n = 2; extensions 100 to 150, 200; message Sub { string s = 1; } }
extend google.protobuf.FieldOptions { Opt mine = 50000; }
message M {
  int32 b = 2 [(mine).sub.s = "x\\ty", (mine).n = 0x10, json_name = "B"];
  string a = 1 [(.p.mine) = {n: [1, 2], sub {s: 'q'}; [p.ext]: true}];
  map<string, .p.Opt.Sub> m = 3;
  extend Opt { int32 ext = 100; }
  reserved 20 to max, 7, "z", "y";
  oneof none {}
}
enum E { option allow_alias = true; B = 1; A = 1; ZERO = 0; reserved 5 to 5; }
"""
)


def test_options_extensions_and_sorting() -> None:
    schema = read(OPTIONS)
    assert schema.text == (Path(__file__).parent / "data" / "protobuf-canonical.txt").read_text("utf-8")
    assert schema.normalized() == (Path(__file__).parent / "data" / "protobuf-normalized.txt").read_text("utf-8")
    short = schema.formatted("ignore_extensions")
    assert "confluent.file_meta" in short
    assert not any(word in short for word in ("zeta", "mine", "extend ", "extensions"))
    assert schema.formatted("nobody knows") == schema.text
    full = read(OPTIONS.replace("oneof none {}", "oneof one { bool o = 9; }")).normalized()
    assert read(full).normalized() == full


def test_serialized_can_be_read_again() -> None:
    schema = read(OPTIONS)
    back = from_base64(schema.formatted("serialized"))
    assert [one.name for one in back.types] == ["Opt", "M", "E"]
    again = read(schema.formatted("serialized"), strict=False)
    assert "map_entry = true" in again.text
    proto = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(schema.formatted("serialized")))
    assert proto.name == "default"
    assert list(proto.dependency) == []  # none of the imports leads anywhere
    assert [field.name for field in proto.message_type[1].field] == ["b", "a", "m"]
    bad = read(HEAD + "option optimize_for = NOBODY; message A {}")
    with pytest.raises(ValueError, match="optimize_for = NOBODY is not known"):
        bad.formatted("serialized")


def test_a_descriptor_is_a_schema() -> None:
    proto = descriptor_pb2.FileDescriptorProto(name="x.proto", package="p", syntax="proto3")
    message = proto.message_type.add(name="M")
    message.field.add(
        name="a", number=1, type="TYPE_INT32", label="LABEL_OPTIONAL", proto3_optional=True, oneof_index=1
    )
    message.field.add(name="b", number=2, type="TYPE_STRING", label="LABEL_OPTIONAL", oneof_index=0)
    message.oneof_decl.add(name="o")
    message.oneof_decl.add(name="_a")
    message.field.add(name="e", number=3, type="TYPE_MESSAGE", label="LABEL_REPEATED", type_name=".p.M.EEntry")
    entry = message.nested_type.add(name="EEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    entry.field.add(name="value", number=2, type="TYPE_MESSAGE", label="LABEL_OPTIONAL", type_name=".p.M")
    message.reserved_range.add(start=9, end=10)
    schema = read(base64.b64encode(proto.SerializeToString()).decode())
    assert schema.normalized() == (
        HEAD + "package p;\n\nmessage M {\n  reserved 9;\n\n  optional int32 a = 1;\n  map<string, .p.M> e = 3;\n\n"
        "  oneof o {\n    string b = 2;\n  }\n}\n"
    )
    same = read(HEAD + "package p; message M { map<string, M> e = 3; optional int32 a = 1; oneof o { string b = 2; } }")
    assert schema.differences(same, "new", "old") == same.differences(schema, "new", "old") == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('edition = "2023"; message A {}', "edition is not currently supported"),
        ("message A { int32 a = 1; }", "unexpected label: int32"),
        ("message A { optional map<string, string> a = 1; }", "'map' type cannot have label"),
        (HEAD + "message A { map<float, string> a = 1; }", "non-scalar key: float"),
        (HEAD + "message A { int32 a = 99999999999; }", "expected an integer but was 99999999999"),
        (HEAD + "message A { int32 1a = 1; }", "field and constant names cannot start with a digit"),
        (HEAD + "message A { /* never closed }", "unterminated comment"),
        (HEAD + 'message A { string a = 1 [json_name = "x]; }', "unterminated string"),
        ("message " + "A{message " * (MAX_DEPTH + 1), f"more than {MAX_DEPTH} levels of messages"),
        (HEAD + "option a = " + "[" * 1000, f"more than {MAX_DEPTH} levels of values in an option"),
        (HEAD + "option (a)" + ".b" * 1000 + " = 1;", f"more than {MAX_DEPTH} parts"),
        (HEAD + "message A { " + "map<string, " * 1000, "nested maps"),
        ("package " + "a." * 1000 + "a;", "parts in the package"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(NotParsed) as refused:
        read(text)
    assert str(refused.value).startswith("Could not parse Protobuf - ")
    assert reason in str(refused.value)


def test_long_names_do_not_multiply() -> None:
    """A short text whose full names would fill the memory."""
    name, levels = "N" * 10_000, 40
    deep = HEAD + f"message {name} {{" * levels + "message T {}" + "T t = 1;" * 20_000 + "}" * levels
    with pytest.raises(NotValid, match="more than 33554432 characters"):
        read(deep)


def test_many_settings_of_one_option() -> None:
    """Joining them one by one would take the square of their number."""
    settings_ = ",".join(f'(confluent.field_meta).tags = "t{n % 7000}"' for n in range(14_000))
    schema = read(HEAD + f"message A {{ int32 a = 1 [{settings_}]; }}")
    assert schema.normalized().count('"t') == 7000


def test_references_are_found_by_name() -> None:
    a = Referenced("a.proto", "a", 1, HEAD + "package a; message A { int32 x = 1; }", True)
    main = HEAD + 'package m; import "a.proto"; message M { a.A one = 1; map<int32, a.A> two = 2; }'
    with pytest.raises(NotValid, match=r"Could not resolve type: a\.A"):
        read(main)
    old = read(main, a)
    newer = Referenced("a.proto", "a", 2, HEAD + "package a; message A { bytes x = 1; }", True)
    kinds = [message.split('"')[1] for message in read(main, newer).differences(old, "new", "old")]
    assert kinds == ["FIELD_SCALAR_KIND_CHANGED", "FIELD_NAMED_TYPE_CHANGED"] * 2
    assert read(main, a).differences(old, "new", "old") == []


def chain(length: int, width: int, last: str) -> tuple[Referenced, ...]:
    """Messages that each use the next one `width` times."""
    bodies = [
        f"message M{n} {{ " + " ".join(f"M{n + 1} f{w} = {w + 1};" for w in range(width)) + " }" for n in range(length)
    ]
    text = HEAD + "package c;" + "".join(bodies) + f"message M{length} {{ {last} }}"
    return (Referenced("c.proto", "c", 1, text, False),)


def test_comparisons_end() -> None:
    main = HEAD + 'import "c.proto"; message M { c.M0 m = 1; }'
    old, new = (read(main, *chain(40, 2, f"{kind} x = 1;")) for kind in ("int32", "string"))
    assert 0 < len(new.differences(old, "new", "old")) <= 1000
    old, new = (read(main, *chain(5000, 1, f"{kind} x = 1;")) for kind in ("int32", "string"))
    assert new.differences(old, "new", "old") == [
        "Unexpected exception during compatibility check: messages refer to one another more than 100 levels deep"
    ]
    looped = chain(3, 2, "M0 back = 1; bool x = 2;"), chain(3, 2, "M0 back = 1; string x = 2;")
    old, new = (read(main, *one) for one in looped)
    assert new.differences(old, "new", "old")


def test_the_order_of_javas_sets() -> None:
    """What a HashSet of Java 21 gives for Message0…29, and after adding Message20…39."""
    first = java_order([f"Message{n}" for n in range(30)])
    assert numbers(first) == "17 16 19 18 13 12 15 14 11 10 6 5 4 3 2 1 0 28 27 29 24 23 26 25 20 22 21 9 8 7"
    both = java_order(first, java_order([f"Message{n}" for n in range(20, 40)]))
    assert numbers(both) == (
        "17 39 16 38 19 18 13 35 12 34 15 37 14 36 31 30 11 33 10 32 6 5 4 3 2 1 0 28 27 29 24 23 26 25 20 22 21 9 8 7"
    )


def numbers(names: Sequence[str]) -> str:
    return " ".join(name.removeprefix("Message") for name in names)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0x10", "16"),
        ("017", "15"),
        ("-1.50", "-1.5"),
        ("3.14159", "3.142"),
        ("1e3", "1000"),
        ("inf", "inf"),
        ("0", "0"),
    ],
)
def test_numbers_as_java_writes_them(text: str, written: str) -> None:
    assert java_number(text) == written


def test_import_paths() -> None:
    assert [unix_path(one) for one in ("a//b", "./a", "a\\b", "/a/", "", "a/../b")] == [
        "a/b",
        "a",
        "a/b",
        "/a",
        ".",
        "a/../b",
    ]


HOSTILE = {
    "nested": HEAD + "message A {" * 100_000,
    "option": HEAD + "option a = " + "{a " * 100_000,
    "comment": HEAD + "/*" * 100_000,
    "escapes": HEAD + 'import "' + "\\x1" * 50_000,
    "base64": "A" * 100_000,
    "not base64": "AAAA=AAA",
    "descriptor": base64.b64encode(b"\x22\xff\xff\xff\x7f").decode(),
    "deep descriptor": base64.b64encode(
        descriptor_pb2.FileDescriptorProto(message_type=[{"name": "A", "nested_type": [{"name": "B"}]}])
        .SerializeToString()
        .replace(b"B", b"\xff")
    ).decode(),
    "field number": HEAD + "message A { int32 a = -2147483649; }",
    "null": HEAD + "message A { int32 \x00 = 1; }",
    "surrogates": HEAD + 'option a = "\ud800";',
    "unreadable name": base64.b64encode(b"\x22\x05\x0a\x03a b").decode(),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_over_http(shared_client: Client, name: str) -> None:
    body = {"schema": HOSTILE[name], "schemaType": "PROTOBUF"}
    for path in ("/subjects/h/versions", "/subjects/h?normalize=true", "/compatibility/subjects/h/versions/latest"):
        assert shared_client.send("POST", path, body).status in ((200, 404, 422) if name == "surrogates" else (422,))


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


WORDS = st.sampled_from(
    [
        "message",
        "enum",
        "oneof",
        "map",
        "group",
        "extend",
        "extensions",
        "option",
        "reserved",
        "import",
        "package",
        "service",
        "rpc",
        "returns",
        "stream",
        "syntax",
        "public",
        "weak",
        "to",
        "max",
        "optional",
        "repeated",
        "required",
        *"<>{}()[]=;,.:'/\\\n\"",
        "..",
        "//",
        "/*",
        "*/",
        "A",
        "B",
        "a.b",
        ".A",
        "M.E",
        "int32",
        "string",
        "(a).b",
        '"proto3"',
        '"proto2"',
        "1",
        "2",
        "0x10",
        "-1",
        "99999999999",
        "1e9",
        "true",
        "default",
        "json_name",
        "map_entry",
        "deprecated",
        "google.protobuf.Any",
        "google.protobuf.Struct",
        "confluent.type.Decimal",
        "é",
    ]
)
SOUP = st.lists(WORDS, max_size=40).map(" ".join)
NAMES = st.sampled_from(["A", "B", "C"])
TYPES = st.sampled_from(
    [
        "int32",
        "string",
        "bytes",
        "sint64",
        "double",
        "A",
        "B",
        "A.B",
        ".p.A",
        "map<string, A>",
        "map<int32, bytes>",
        "google.protobuf.Any",
        "E",
        "Nope",
    ]
)


def fields(label: st.SearchStrategy[str]) -> Any:
    parts = st.tuples(
        label, TYPES, st.sampled_from("xyz"), st.integers(-1, 4), st.sampled_from(["", " [packed = true]"])
    )
    return parts.map(lambda one: f"{one[0]} {one[1]} {one[2]} = {one[3]}{one[4]};")


LABELS = st.sampled_from(["", "", "", "optional", "repeated"])
ONEOFS = st.tuples(st.sampled_from("xy"), st.lists(fields(st.just("")), max_size=3)).map(
    lambda one: f"oneof {one[0]} {{ {' '.join(one[1])} }}".replace("map<string, A>", "A").replace(
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
        lambda found: "".join(f"message {name} {{ {parts[0]} {parts[1]} }}" for name, parts in found.items())
    )


MESSAGES: Any = st.recursive(st.just(""), messages, max_leaves=4)
SCHEMAS: Any = st.tuples(
    st.sampled_from([HEAD, HEAD, HEAD, 'syntax = "proto2";\n', ""]),
    st.sampled_from(["package p;", "package p;", "package p;", "", "package q.r;"]),
    MESSAGES,
    st.sampled_from(["", "enum E { Z = 0; }"]),
    st.sampled_from(["", "message B { int32 x = 1; } message A { B x = 1; message B { string y = 2; } }"]),
).map(lambda one: "".join(one[:2]) + (one[4] or one[2]) + one[3])


def understood(text: str) -> ProtobufSchema | None:
    try:
        return read(text)
    except (NotParsed, NotValid):
        return None


def distinct(types: Sequence[Message | Enum]) -> bool:
    """Whether no name or number is there twice, which Confluent accepts and then compares by the last."""
    messages = [one for one in types if isinstance(one, Message)]
    if len({one.name for one in types}) < len(types):
        return False
    for one in messages:
        fields = [*one.fields, *(field for oneof in one.oneofs for field in oneof.fields)]
        if len({field.tag for field in fields}) < len(fields) or len({oneof.name for oneof in one.oneofs}) < len(
            one.oneofs
        ):
            return False
    return all(distinct(one.types) for one in messages)


def use(schemas: Sequence[ProtobufSchema | None]) -> None:
    """Everything the service does with a schema."""
    there = [one for one in schemas if one is not None]
    for one in there:
        assert read(one.text, strict=False).text == one.text
        try:
            back = from_base64(one.formatted("serialized"))
        except ValueError:
            continue
        assert len(back.types) == len(one.file.types)
        assert isinstance(one.formatted("ignore_extensions"), str)
    for old in there:
        for new in there:
            for message in new.differences(old, "new", "old"):
                assert message.startswith(("{errorType:", "Unexpected exception"))


@settings(max_examples=300, deadline=None)
@given(SOUP, SCHEMAS, SCHEMAS)
def test_only_two_errors(soup: str, one: str, two: str) -> None:
    understood(soup)
    schemas = [understood(one), understood(two)]
    use(schemas)
    for schema in schemas:
        if schema is not None and distinct(schema.file.types):
            assert schema.differences(schema, "new", "old") == []


@settings(max_examples=300, deadline=None)
@given(SCHEMAS, st.randoms(use_true_random=False), st.integers(1, 8))
def test_damaged_texts_and_descriptors(text: str, dice: random.Random, times: int) -> None:
    schema = understood(text)
    data = bytearray(base64.b64decode(schema.formatted("serialized")) if schema else text.encode())
    letters = [*text, " "]
    for _ in range(times):
        letters[dice.randrange(len(letters))] = dice.choice('{}[]()<>"=;/\\.0aA\n')
        if data:
            data[dice.randrange(len(data))] = dice.randrange(256)
    use([understood("".join(letters)), understood(base64.b64encode(bytes(data)).decode())])
