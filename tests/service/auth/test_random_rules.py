"""For any rules, what a user sees is a registry that holds nothing but the subjects they may read (ids aside)."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.access import ADMIN, InProcess, bearer, files, rule
from tests.support.service import column, record, short_and_long
from ticdc_bridge.service.auth import acl
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import config, register, subjects
from ticdc_bridge.service.registry.model import NewSchema, Reference
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.server.app import create_app, create_served
from ticdc_bridge.service.server.settings import Settings

NAMES = ("a", "a.x", "a.y", "b", "b.x", ":.c:a", ":.c:b", ":.d:a")
SCHEMAS = (
    record("A", column("a")),
    record("A", column("a"), column("b", ["null", "int"], default=None)),
    record("B", column("b", "string")),
    json.dumps("long"),
)
USER = record("U", column("f", "B"))


@dataclass(frozen=True)
class Step:
    """Something that happens to one subject; `other` is a subject that it refers to."""

    kind: str
    subject: str
    schema: str = ""
    other: str = ""


STEPS = st.one_of(
    st.builds(Step, st.just("register"), st.sampled_from(NAMES), st.sampled_from(SCHEMAS)),
    st.builds(Step, st.just("register"), st.sampled_from(NAMES), st.sampled_from(SCHEMAS)),
    st.builds(Step, st.just("refer"), st.sampled_from(NAMES), st.just(USER), st.sampled_from(NAMES)),
    st.builds(Step, st.just("delete"), st.sampled_from(NAMES)),
    st.builds(Step, st.just("level"), st.sampled_from(NAMES)),
    st.builds(Step, st.just("alias"), st.sampled_from(NAMES), other=st.sampled_from(NAMES)),
)
# A rule for exactly `:.c:` is not among them: it shows that context, with or without subjects in it.
TEXTS = {
    "subjects": NAMES,
    "prefixes": (*NAMES, "a.", "", ":.c:", ":.d:"),
    "patterns": (*NAMES, "*", "*.x", "a*", ":.c:*", "*a", "*:a", "b*x"),
}
RULES = st.lists(
    st.sampled_from(sorted(TEXTS)).flatmap(
        lambda kind: st.tuples(st.just(kind), st.lists(st.sampled_from(TEXTS[kind]), min_size=1, max_size=2))
    ),
    max_size=3,
)


def happen(registry: Registry, step: Step) -> None:
    try:
        match step.kind:
            case "register":
                register.register(registry, step.subject, NewSchema(step.schema), force=True)
            case "refer":
                reference = Reference("B", step.other, 1)
                register.register(registry, step.subject, NewSchema(step.schema, references=(reference,)))
            case "delete":
                subjects.delete_subject(registry, step.subject)
            case "level":
                config.update(registry, step.subject, {"compatibility": "NONE"})
            case "alias":
                config.update(registry, step.subject, {"alias": step.other})
            case "no alias":
                config.update(registry, step.subject, {"alias": None})
                with registry.store.read() as tx:
                    empty = tx.configs([step.subject]) == {step.subject: {}}
                if empty:
                    config.delete(registry, step.subject)
    except RegistryError:
        pass  # the same in both worlds


def requests() -> Iterator[tuple[str, str, Any]]:
    yield from (("GET", path, None) for path in ("/subjects", "/subjects?deleted=true", "/contexts", "/"))
    for prefix in (":*:", "a", ":.c:", ":*:a"):
        for path in ("/subjects", "/schemas"):
            yield "GET", f"{path}?subjectPrefix={quote(prefix)}", None
    yield "GET", "/schemas?deleted=true&subjectPrefix=:*:", None
    yield "GET", "/schemas?aliases=true&subjectPrefix=:*:", None
    for name in NAMES:
        subject = quote(name, safe="")
        yield "GET", f"/subjects/{subject}/versions?deleted=true", None
        yield "GET", f"/subjects/{subject}/versions/latest", None
        yield "GET", f"/subjects/{subject}/versions/1?deleted=true&format=resolved", None
        yield "GET", f"/subjects/{subject}/versions/1/referencedby?deleted=true", None
        yield "GET", f"/config/{subject}", None
        yield "GET", f"/config/{subject}?defaultToGlobal=true", None
        yield "GET", f"/mode/{subject}", None
        for schema in (SCHEMAS[1], SCHEMAS[2]):
            yield "POST", f"/subjects/{subject}?deleted=true", {"schema": schema}
        yield "POST", f"/compatibility/subjects/{subject}/versions/latest?verbose=true", {"schema": SCHEMAS[2]}
        reference = {"name": "B", "subject": name, "version": 1}
        yield "POST", "/subjects/a", {"schema": USER, "references": [reference]}


@dataclass
class World:
    """An app, and how its ids are called: by the schema they stand for."""

    app: InProcess
    registry: Registry
    authorization: str | None = None
    ids: dict[tuple[str, int], str] = field(default_factory=dict)

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        reply = self.app.send(method, path, body, self.authorization)
        return reply.status, self.plain(reply.json, "referencedby" in path)

    def plain(self, value: Any, ids: bool = False) -> Any:
        """Without numbers that count what others did: ids, times."""
        if isinstance(value, dict):
            return {key: self.plain(entry) for key, entry in value.items() if key not in ("id", "ts")}
        if isinstance(value, list):
            return ["id" if ids and isinstance(entry, int) else self.plain(entry) for entry in value]
        return value

    def by_id(self, seen: frozenset[str] | None) -> dict[str, list[tuple[int, Any]]]:
        """For each id, called by its schema: what the four paths of `/schemas/ids` say."""
        found: dict[str, list[tuple[int, Any]]] = {}
        with self.registry.store.read() as tx:
            stored = tx.search("", deleted=True)
        for entry in stored:
            if seen is not None and entry.subject not in seen:
                continue
            context = entry.subject.rpartition(":")[0] + ":" if entry.subject.startswith(":") else ""
            name = f"{context}{entry.content.text}{entry.content.references}"
            for path in ("", "/schema", "/subjects?deleted=true", "/versions"):
                sign = "&" if "?" in path else "?"
                url = f"/schemas/ids/{entry.id}{path}{sign}subject={quote(entry.subject, safe='')}"
                status, reported = self.answer("GET", url, None)
                if status != 200:
                    reported["message"] = reported["message"].replace(f"Schema {entry.id} ", "Schema ")
                found.setdefault(name + path + entry.subject, []).append((status, reported))
        return found


@contextmanager
def world(folder: Path, rules: str | None) -> Iterator[World]:
    store = f"sqlite:///{folder / ('all.db' if rules else 'visible.db')}"
    # Both worlds are filled behind the access control's back.
    filling = create_app(Settings(store=store)).state.services.registry
    served = create_served(Settings(store=store, **(files(folder, rules) if rules else {})))
    app = InProcess(served)
    try:
        yield World(app, filling, bearer("u") if rules else None)
    finally:
        app.close()
        filling.store.close()


# No shrinking: the steps are few, and each try is two stores.
@short_and_long(3, 25)
def test_what_is_seen_is_a_world_of_its_own(examples: int) -> None:
    @settings(
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(st.lists(STEPS, min_size=1, max_size=14), RULES)
    def holds(steps: list[Step], rules: list[tuple[str, list[str]]]) -> None:
        text = ADMIN + "".join(rule(["u"], ["read"], **{kind: texts}) for kind, texts in rules)
        access = acl.read(text, "acl").access("u")
        sees = frozenset(name for name in NAMES if access.may("read", name))
        with (
            tempfile.TemporaryDirectory() as name,
            world(Path(name), text) as everything,
            world(Path(name), None) as visible,
        ):
            # Aliases come last: a registration must not write to another subject than it names.
            for step in sorted(steps, key=lambda step: step.kind == "alias"):
                # What a visible schema refers to is part of it: such a world would not be closed.
                is_hidden = not access.may("read", qualified(step))
                if step.kind == "refer" and step.subject in sees and is_hidden:
                    continue
                happen(everything.registry, step)
                if step.subject in sees:
                    # An alias that leads to what is hidden is none.
                    is_none = step.kind == "alias" and is_hidden
                    happen(visible.registry, replace(step, kind="no alias") if is_none else step)
            compare(everything, visible, sees)

    holds()


def qualified(step: Step) -> str:
    context = step.subject.rpartition(":")[0] + ":" if step.subject.startswith(":") else ""
    return step.other if step.other.startswith(":") else context + step.other


def compare(everything: World, visible: World, sees: frozenset[str]) -> None:
    for method, path, body in requests():
        everything.app.send(method, path, body, bearer("root"))  # kept answers of others must not show through
        expected = visible.answer(method, path, body)
        for _ in range(2):
            assert everything.answer(method, path, body) == expected, (method, path, body)
    assert everything.by_id(sees) == visible.by_id(None)
    with everything.registry.store.read() as tx:
        hidden = {entry.id for entry in tx.search("", deleted=True) if entry.subject not in sees}
        shown = {entry.id for entry in tx.search("", deleted=True) if entry.subject in sees}
    for number in hidden - shown:
        assert everything.answer("GET", f"/schemas/ids/{number}", None)[0] == 404
