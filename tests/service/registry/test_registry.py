"""Rules of the registry that no capture shows."""

import json

import pytest

from tests.support.each import each
from tests.support.service import column, record
from tests.support.table import check_rows
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import compatibility, config, schemas, subjects
from ticdc_bridge.service.registry.model import NewSchema, Reference
from ticdc_bridge.service.registry.names import LATEST
from ticdc_bridge.service.registry.register import lookup, register
from ticdc_bridge.service.registry.registry import Registry


def code(error: pytest.ExceptionInfo[RegistryError]) -> str:
    return error.value.code


def test_a_known_text_is_not_parsed_again(registry: Registry) -> None:
    text = record("R", column("a"))
    register(registry, "s", NewSchema(text))
    parsed = registry.cache.get(("AVRO", text, True))
    assert parsed is not None
    assert registry.parse("AVRO", text) is parsed


def test_config_and_mode_go_with_the_last_version(registry: Registry) -> None:
    register(registry, "s", NewSchema('"int"'))
    config.update(registry, "s", {"compatibility": "FULL"})
    config.update_mode(registry, "s", "READWRITE")
    subjects.delete_subject(registry, "s")
    assert config.get(registry, "s", default_to_global=False) == {"compatibilityLevel": "FULL"}
    subjects.delete_version(registry, "s", 1, permanent=True)
    for get, why in ((config.get, "COMPATIBILITY_NOT_CONFIGURED"), (config.get_mode, "MODE_NOT_CONFIGURED")):
        with pytest.raises(RegistryError) as none:
            get(registry, "s", default_to_global=False)
        assert code(none) == why


def test_normalize_in_the_config_counts(registry: Registry) -> None:
    config.update(registry, None, {"normalize": True})
    stored = register(registry, "s", NewSchema('{"type":"int","b":1,"a":2}')).stored
    assert stored.content.text == '{"type":"int","a":2,"b":1}'
    assert lookup(registry, "s", NewSchema('{"type":"int","b":1,"a":2}')).stored.version == 1


def test_what_a_config_inherits(registry: Registry) -> None:
    """A scope's own config takes what it does not say from the server's; without one the nearest counts whole."""
    config.update(registry, None, {"normalize": True, "validateFields": True})
    config.update(registry, ":.c:", {"normalize": False, "compatibilityGroup": "g", "compatibility": "FULL"})
    config.update(registry, ":.c:own", {"compatibilityPolicy": "LENIENT"})
    config.update(registry, "own", {"normalize": False})

    def check(row: tuple[str, dict[str, object]]) -> None:
        subject, settings = row
        level = {"compatibilityLevel": "BACKWARD"}
        assert config.get(registry, subject, default_to_global=True) == level | settings

    lenient: dict[str, object] = {"normalize": True, "validateFields": True, "compatibilityPolicy": "LENIENT"}
    context: dict[str, object] = {"normalize": False, "compatibilityGroup": "g", "compatibilityLevel": "FULL"}
    rows: list[tuple[str, dict[str, object]]] = [
        (":.c:own", lenient), (":.c:other", context), (":.c:", context | {"validateFields": True}),
        ("own", {"normalize": False, "validateFields": True}), ("other", {"normalize": True, "validateFields": True}),
        (":.d:other", {}),
    ]  # fmt: skip
    check_rows(rows, check)


def test_references_of_references(registry: Registry) -> None:
    register(registry, "inner", NewSchema(record("Inner", column("x"))))
    middle = NewSchema(record("Middle", column("i", "Inner")), references=(Reference("Inner", "inner", 1),))
    register(registry, "middle", middle)
    outer = NewSchema(
        record("Outer", column("m", "Middle"), column("i", "Inner")), references=(Reference("Middle", "middle", -1),)
    )
    stored = register(registry, "outer", outer).stored
    assert stored.content.references == (Reference("Middle", "middle", 1),)
    wider = record("Outer", column("m", "Middle"), column("i", "Inner"), column("y"))
    problems = compatibility.check(
        registry, "outer", None, NewSchema(wider, references=stored.content.references), normalize=False
    )
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in problems[0]
    assert schemas.format_schema(registry, stored, "resolved").count('"name":"Inner"') == 1
    with pytest.raises(RegistryError) as held:
        subjects.delete_subject(registry, "inner")
    assert code(held) == "REFERENCED"


@each("normalize", [False, True])
def test_a_type_inside_a_reference_is_written_out(registry: Registry, normalize: bool) -> None:
    """Only what is a reference as a whole stands as a name in the stored text (Java's `Schema.toString`)."""
    inner = json.loads(record("Inner", column("x")))
    register(registry, "middle", NewSchema(record("Middle", column("i", inner))))
    references = (Reference("Middle", "middle", 1),)
    sent = record("Outer", column("a", "Inner"), column("b", "Inner"), column("m", "Middle"))
    stored = register(registry, "outer", NewSchema(sent, references=references), normalize=normalize).stored
    fields = json.loads(stored.content.text)["fields"]
    assert [field["type"] for field in fields] == [inner, "Inner", "Middle"]
    for text in (sent, stored.content.text):
        assert register(registry, "outer", NewSchema(text, references=references)).stored == stored
        assert lookup(registry, "outer", NewSchema(text, references=references), normalize=normalize).stored == stored


def test_a_soft_deleted_schema_keeps_its_references(registry: Registry) -> None:
    register(registry, "inner", NewSchema(record("Inner", column("x"))))
    new = NewSchema(record("Outer", column("i", "Inner")), references=(Reference("Inner", "inner", 1),))
    register(registry, "outer", new)
    subjects.delete_subject(registry, "outer")
    subjects.delete_subject(registry, "inner")
    stored = subjects.get_version(registry, "outer", 1, deleted=True)
    assert '"name":"x"' in schemas.format_schema(registry, stored, "resolved")


def test_compatible_is_what_registers(registry: Registry) -> None:
    """The check and the registration agree at every level."""
    texts = ['"int"', '"long"', '"string"', record("A"), record("A", column("x")), record("A", column("x", default=1))]
    for level in ("BACKWARD", "FORWARD", "FULL", "NONE", "BACKWARD_TRANSITIVE"):
        for old in texts:
            for new in texts:
                subject = f"{level}-{texts.index(old)}-{texts.index(new)}"
                register(registry, subject, NewSchema(old))
                config.update(registry, subject, {"compatibility": level})
                problems = compatibility.check(registry, subject, LATEST, NewSchema(new), normalize=False)
                if problems and old != new:
                    with pytest.raises(RegistryError):
                        register(registry, subject, NewSchema(new))
                else:
                    assert register(registry, subject, NewSchema(new)).stored.version == (1 if old == new else 2)
