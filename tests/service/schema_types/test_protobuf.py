"""Protobuf texts: read, written and compared."""

import base64
import importlib
from collections.abc import Sequence
from pathlib import Path

import google.type
import pytest
from google.protobuf import descriptor_pb2

from tests.support.each import each
from tests.support.table import check_rows
from ticdc_bridge.service.schema_types.base import ReferencedText, SchemaParseError, SchemaValidityError, TaggedEntity
from ticdc_bridge.service.schema_types.java_text import hash_order, java_number
from ticdc_bridge.service.schema_types.protobuf.canonical import text_of
from ticdc_bridge.service.schema_types.protobuf.descriptor import file_of, from_base64, known_types
from ticdc_bridge.service.schema_types.protobuf.model import File
from ticdc_bridge.service.schema_types.protobuf.parse import parse, unix_path
from ticdc_bridge.service.schema_types.protobuf.schema import ProtobufSchema, parse_protobuf
from ticdc_bridge.service.schema_types.protobuf.scopes import THIS_SCHEMA, DeclaredNames
from ticdc_bridge.service.schema_types.protobuf.tokens import MAX_DEPTH

SHIPPED = Path(next(iter(google.type.__path__))).parent.parent
HEAD = 'syntax = "proto3";\n'


def read(text: str, *referenced: ReferencedText, strict: bool = True) -> ProtobufSchema:
    return parse_protobuf(text, referenced, strict)


def normalized(file: File, *others: File) -> str:
    types = DeclaredNames(known_types())
    for other in (*others, file):
        types.add(other, THIS_SCHEMA)
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


def test_a_canonical_text_stays() -> None:
    def check(path: Path) -> None:
        text = text_of(parse(path.read_text("utf-8")))
        assert text_of(parse(text)) == text

    check_rows(sorted(SHIPPED.glob("google/**/*.proto")), check)


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
    assert schema.normalized_text() == (Path(__file__).parent / "data" / "protobuf-normalized.txt").read_text("utf-8")
    short = schema.format_text("ignore_extensions")
    assert "confluent.file_meta" in short
    assert not any(word in short for word in ("zeta", "mine", "extend ", "extensions"))
    assert schema.format_text("nobody knows") == schema.text
    full = read(OPTIONS.replace("oneof none {}", "oneof one { bool o = 9; }")).normalized_text()
    assert read(full).normalized_text() == full


SERIALIZED: list[tuple[str, str]] = [
    (
        HEAD + "message A { optional int32 a = 1; }",
        "CgdkZWZhdWx0IhsKAUESDgoBYRgBIAEoBUgAiAEBQgYKAl9hEgBiBnByb3RvMw==",
    ),
    (
        'syntax = "proto2"; message A { extensions 5 to 9; } extend A { optional int32 e = 6; }',
        "CgdkZWZhdWx0IgsKAUEqBggFEAoaADoMCgFlEgFBGAYgASgFYgZwcm90bzI=",
    ),
]
"""What Confluent's own library makes of them: the oneof of an optional field and a range have options, empty ones."""


@each(("text", "serialized"), SERIALIZED)
def test_serialized(text: str, serialized: str) -> None:
    assert read(text).format_text("serialized") == serialized


def test_serialized_can_be_read_again() -> None:
    schema = read(OPTIONS)
    back = from_base64(schema.format_text("serialized"))
    assert [type_.name for type_ in back.types] == ["Opt", "M", "E"]
    again = read(schema.format_text("serialized"), strict=False)
    assert "map_entry = true" in again.text
    proto = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(schema.format_text("serialized")))
    assert proto.name == "default"
    assert list(proto.dependency) == []  # none of the imports leads anywhere
    assert [field.name for field in proto.message_type[1].field] == ["b", "a", "m"]
    bad = read(HEAD + "option optimize_for = NOBODY; message A {}")
    with pytest.raises(ValueError, match="optimize_for = NOBODY is not known"):
        bad.format_text("serialized")


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
    assert schema.normalized_text() == (
        HEAD + "package p;\n\nmessage M {\n  reserved 9;\n\n  optional int32 a = 1;\n  map<string, .p.M> e = 3;\n\n"
        "  oneof o {\n    string b = 2;\n  }\n}\n"
    )
    same = read(HEAD + "package p; message M { map<string, M> e = 3; optional int32 a = 1; oneof o { string b = 2; } }")
    assert schema.differences(same, "new", "old") == same.differences(schema, "new", "old") == []


@each(("text", "reason"), [
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
])  # fmt: skip
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(SchemaParseError) as refused:
        read(text)
    assert str(refused.value).startswith("Could not parse Protobuf - ")
    assert reason in str(refused.value)


def test_long_names_do_not_multiply() -> None:
    """A short text whose full names would fill the memory."""
    name, levels = "N" * 10_000, 40
    deep = HEAD + f"message {name} {{" * levels + "message T {}" + "T t = 1;" * 20_000 + "}" * levels
    with pytest.raises(SchemaValidityError, match="more than 33554432 characters"):
        read(deep)


def test_many_settings_of_one_option() -> None:
    """Joining them one by one would take the square of their number."""
    settings_ = ",".join(f'(confluent.field_meta).tags = "t{n % 7000}"' for n in range(14_000))
    schema = read(HEAD + f"message A {{ int32 a = 1 [{settings_}]; }}")
    assert schema.normalized_text().count('"t') == 7000


def test_references_are_found_by_name() -> None:
    a = ReferencedText("a.proto", "a", 1, HEAD + "package a; message A { int32 x = 1; }", True)
    main = HEAD + 'package m; import "a.proto"; message M { a.A one = 1; map<int32, a.A> two = 2; }'
    with pytest.raises(SchemaValidityError, match=r"Could not resolve type: a\.A"):
        read(main)
    old = read(main, a)
    newer = ReferencedText("a.proto", "a", 2, HEAD + "package a; message A { bytes x = 1; }", True)
    kinds = [message.split('"')[1] for message in read(main, newer).differences(old, "new", "old")]
    assert kinds == ["FIELD_SCALAR_KIND_CHANGED", "FIELD_NAMED_TYPE_CHANGED"] * 2
    assert read(main, a).differences(old, "new", "old") == []


def chain(length: int, width: int, last: str) -> tuple[ReferencedText, ...]:
    """Messages that each use the next one `width` times."""
    bodies = [
        f"message M{n} {{ " + " ".join(f"M{n + 1} f{w} = {w + 1};" for w in range(width)) + " }" for n in range(length)
    ]
    text = HEAD + "package c;" + "".join(bodies) + f"message M{length} {{ {last} }}"
    return (ReferencedText("c.proto", "c", 1, text, False),)


def test_comparisons_end() -> None:
    main = HEAD + 'import "c.proto"; message M { c.M0 m = 1; }'
    old, new = (read(main, *chain(40, 2, f"{kind} x = 1;")) for kind in ("int32", "string"))
    assert 0 < len(new.differences(old, "new", "old")) <= 1000
    old, new = (read(main, *chain(5000, 1, f"{kind} x = 1;")) for kind in ("int32", "string"))
    assert new.differences(old, "new", "old") == [
        "Unexpected exception during compatibility check: messages refer to one another more than 100 levels deep"
    ]
    looped = chain(3, 2, "M0 back = 1; bool x = 2;"), chain(3, 2, "M0 back = 1; string x = 2;")
    old, new = (read(main, *entry) for entry in looped)
    assert new.differences(old, "new", "old")


def test_the_order_of_javas_sets() -> None:
    """What a HashSet of Java 21 gives for Message0…29, and after adding Message20…39."""
    first = hash_order([f"Message{n}" for n in range(30)])
    assert numbers(first) == "17 16 19 18 13 12 15 14 11 10 6 5 4 3 2 1 0 28 27 29 24 23 26 25 20 22 21 9 8 7"
    both = hash_order(first, hash_order([f"Message{n}" for n in range(20, 40)]))
    assert numbers(both) == (
        "17 39 16 38 19 18 13 35 12 34 15 37 14 36 31 30 11 33 10 32 6 5 4 3 2 1 0 28 27 29 24 23 26 25 20 22 21 9 8 7"
    )


def numbers(names: Sequence[str]) -> str:
    return " ".join(name.removeprefix("Message") for name in names)


@each(("text", "written"), [
    ("0x10", "16"), ("017", "15"), ("-1.50", "-1.5"), ("3.14159", "3.142"), ("1e3", "1000"), ("inf", "inf"),
    ("0", "0"),
])  # fmt: skip
def test_numbers_as_java_writes_them(text: str, written: str) -> None:
    assert java_number(text) == written


def test_import_paths() -> None:
    assert [unix_path(entry) for entry in ("a//b", "./a", "a\\b", "/a/", "", "a/../b")] == [
        "a/b", "a", "a/b", "/a", ".", "a/../b",
    ]  # fmt: skip


TAGGED = """package q; message M { string a = 1; string b = 2 [deprecated = true, (confluent.field_meta).tags = "X"];
oneof o { int32 z = 3; } message I { int32 a = 1; } }"""
PATHS = [
    ("sr_field", "M.a", "M.a"), ("sr_field", ".M.a", "M.a"), ("sr_field", "M.b", "M.b"), ("sr_field", "M.z", "M.z"),
    ("sr_field", "M.o.z", "M.z"), ("sr_field", "M.I.a", "M.I.a"), ("sr_record", "M", "M"),
    ("sr_record", "M.I", "M.I"),
]  # fmt: skip
NO_PATHS = ["q.M.a", "M.x", "a", "M.I", "M.p.z", "M.o.a", ""]


@each(("kind", "path", "there"), PATHS)
def test_tags(kind: str, path: str, there: str) -> None:
    """Set, found again, and taken away."""
    tag = TaggedEntity(path, kind, ("T", "U"))
    text = read(HEAD + TAGGED).change_tags((tag,), ())
    assert any(part.path == there and part.tags[-2:] == ("T", "U") for part in read(text).tags())
    assert read(text).change_tags((), (tag,)) == read(HEAD + TAGGED).change_tags((), (tag,))


@each("path", NO_PATHS)
def test_tags_of_what_is_not_there(path: str) -> None:
    with pytest.raises(ValueError, match=r"No matching (Message|Field) with name"):
        read(HEAD + TAGGED).change_tags((TaggedEntity(path, "sr_field", ("T",)),), ())


def test_tagged_text() -> None:
    tag = TaggedEntity("M.a", "sr_field", ("PII",))
    assert read(HEAD + "message M { string a = 1; }").change_tags((tag,), ()) == (
        HEAD + '\nmessage M {\n  string a = 1 [(confluent.field_meta) = {\n    tags: [\n      "PII"\n    ]\n  }];\n}\n'
    )
