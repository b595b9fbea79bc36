"""Whatever is sent, the answer is below 500 and has the shape of an answer."""

import json
from typing import Any
from urllib.parse import quote

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.service import Client, short_and_long

NAMES = st.sampled_from(["s", "t", "a/b", ":.c:s", ":.:", "__GLOBAL", "-1", "1", "2", "latest", "", "é", "x" * 300])
SEGMENTS = st.one_of(
    st.sampled_from(["subjects", "versions", "schemas", "ids", "config", "mode", "compatibility", "guids", "schema"]),
    NAMES.map(lambda name: quote(name, safe="")),
    st.text(max_size=5).map(lambda name: quote(name.encode("utf-8", "replace"), safe="")),
)
SUBJECT = st.sampled_from(["s", "t", "u"])
PATHS = st.one_of(
    st.lists(SEGMENTS, max_size=5).map(lambda pieces: "/" + "/".join(pieces)),
    SUBJECT.map(lambda name: f"/subjects/{name}/versions"),
    st.tuples(SUBJECT, NAMES).map(lambda two: f"/subjects/{two[0]}/versions/{quote(two[1], safe='')}"),
    SUBJECT.map(lambda name: f"/compatibility/subjects/{name}/versions/latest"),
    SUBJECT.map(lambda name: f"/config/{name}"),
    st.integers(-2, 6).map(lambda number: f"/schemas/ids/{number}"),
)
FLAGS = st.sampled_from([
    "", "deleted=true", "permanent=true", "verbose=TRUE", "normalize=true", "limit=-1&offset=-5", "limit=x",
    "force=true", "format=resolved", "defaultToGlobal=true", "subject=%ff", "subjectPrefix=:*:", "%00=%00",
])  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
FIELD_NAMES, TYPE_NAMES = st.sampled_from("ab"), st.sampled_from("EF")


def containers(inner: Any) -> Any:
    field = st.fixed_dictionaries({"name": FIELD_NAMES, "type": inner}, optional={"default": VALUES})
    symbols = st.lists(st.text(max_size=2))
    return st.one_of(
        st.lists(inner, max_size=3),
        st.fixed_dictionaries({"type": st.sampled_from(["array", "map"]), "items": inner, "values": inner}),
        st.fixed_dictionaries({"type": st.just("record"), "name": TYPE_NAMES, "fields": st.lists(field, max_size=3)}),
        st.fixed_dictionaries({"type": st.just("enum"), "name": TYPE_NAMES, "symbols": symbols}),
    )


TYPES: Any = st.recursive(st.sampled_from(["int", "string", "null", "E", "nope"]), containers, max_leaves=6)
REFERENCE = st.fixed_dictionaries({"name": st.just("E"), "subject": SUBJECT, "version": st.integers(-2, 4)})
REQUESTS = st.fixed_dictionaries(
    {"schema": st.one_of(TYPES.map(json.dumps), VALUES)},
    optional={
        "schemaType": st.sampled_from(["AVRO", "JSON", "PROTOBUF", "x", None]),
        "references": st.one_of(st.lists(st.one_of(REFERENCE, VALUES), max_size=2), VALUES),
        "metadata": st.one_of(
            VALUES, st.fixed_dictionaries({"properties": st.dictionaries(st.text(max_size=3), VALUES, max_size=2)})
        ),
        "version": st.one_of(st.integers(-3, 5), VALUES),
        "compatibility": st.one_of(st.sampled_from(["FULL", "NONE"]), VALUES),
        "alias": VALUES,
        "defaultMetadata": VALUES,
    },
)
BODIES = st.one_of(
    st.none(), st.binary(max_size=20), VALUES.map(json.dumps).map(str.encode), REQUESTS.map(json.dumps).map(str.encode)
)


@short_and_long(120, 600)
def test_never_a_server_error(shared_client: Client, examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(st.sampled_from(["GET", "POST", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]), PATHS, FLAGS, BODIES)
    def holds(method: str, path: str, flags: str, body: bytes | None) -> None:
        answer = shared_client.send(method, f"{path}?{flags}", body)
        assert answer.status < 500, answer.body
        if answer.headers.get("content-type", "").startswith("text/") or method == "HEAD":
            return
        if answer.status != 200:
            assert list(answer.json) == ["error_code", "message"]
            assert isinstance(answer.json["error_code"], int)

    holds()
