"""Can data that fits one JSON schema be read with another? The verdicts of Confluent's json-schema-provider.

Rules: upstream schema-registry, `json/diff`. Only differences that break are kept. Pairs of schemas are compared once;
a pair met again while it is being compared is taken for compatible, and all is compared again while that was wrong. No
schema can exhaust the stack, time or memory: comparisons call each other through a list, and their work and the
differences are bounded (ComparisonTooLarge).

Three deliberate differences from Confluent: numbers are compared exactly, not as doubles; where Confluent fails with an
exception (a lower exclusiveMaximum, fractions in multipleOf, a null as const) the change is judged; and two references
that lead to other references, which Confluent takes for equal, are followed to their ends.
"""

from collections.abc import Generator
from itertools import chain
from typing import Any, Final

from ticdc_bridge.service.schema_types.base import ComparisonTooLarge
from ticdc_bridge.service.schema_types.java_text import hash_order
from ticdc_bridge.service.schema_types.json_schema import model
from ticdc_bridge.service.schema_types.json_schema.differences import (
    LENIENT,
    ORDER,
    SchemaDifference,
    alternatives,
    are_bytes,
    bounds,
    count_matches,
    distinct,
    is_open,
    multiple_of,
    name_of,
    node_of,
    pattern_change,
    rest_schema,
    values_change,
    widens,
)
from ticdc_bridge.service.schema_types.json_schema.pattern import TimeBudget, UnusablePattern, matches

MAX_STEPS: Final = 500_000
"""Schemas, properties, items, values and differences looked at in one comparison: a few seconds."""
MAX_DIFFERENCES: Final = 5_000
MAX_PATTERN_SECONDS: Final = 0.12
"""Of one comparison; a registration makes four at most, in both directions and once more when it is refused."""

_Found = list[SchemaDifference]
_Task = Generator[Any, Any, _Found]
"""A comparison: yields those it needs, is sent their results, returns its own."""


def incompatibilities(original: model.SchemaLocation, update: model.SchemaLocation, *, lenient: bool = False) -> _Found:
    """Everything that keeps `update` from reading what `original` wrote, or []. Raises ComparisonTooLarge."""
    comparison = _Comparison(LENIENT if lenient else frozenset())
    differences = comparison.run(original, update)
    while comparison.assumed:
        broken = comparison.broken | {pair: found for pair, found in comparison.known.items() if found}
        if broken.keys() == comparison.seed.keys():
            break
        # What was taken for compatible in a circle may have turned out not to be: once more, knowing that.
        comparison.known, comparison.broken, comparison.open = {}, {}, set()
        comparison.seed, comparison.assumed = broken, False
        try:
            differences = comparison.run(original, update)
        except ComparisonTooLarge:
            if not differences:
                raise
            break
    return differences


class _Comparison:
    def __init__(self, accepted: frozenset[str]) -> None:
        self.accepted = accepted
        self.known: dict[tuple[int, int], _Found] = {}
        self.broken: dict[tuple[int, int], _Found] = {}
        """Pairs that have these differences and perhaps more."""
        self.open: set[tuple[int, int]] = set()
        """Pairs that are being compared."""
        self.seed: dict[tuple[int, int], _Found] = {}
        """Results of an earlier round for pairs that break: the answer where one is met again inside itself."""
        self.assumed = False
        """True if this round took such a pair for compatible."""
        self.steps_spent = 0
        self.pattern_seconds = TimeBudget(MAX_PATTERN_SECONDS)

    def run(self, original: model.SchemaLocation, update: model.SchemaLocation) -> _Found:
        """Run a comparison; a step that needs another one yields it and gets its result."""
        answer = self.known_differences(original, update)
        if answer is not None:
            return answer
        # `$ref: "#"` leads to another schema than the whole, to Confluent: the whole is never met inside itself.
        refers = isinstance(original.node, model.Ref) or isinstance(update.node, model.Ref)
        tasks: list[_Task] = [(self.compare if refers else self.judge)(original, update, False)]
        result: _Found | None = None
        while tasks:
            try:
                needed = tasks[-1].send(result)
            except StopIteration as done:
                tasks.pop()
                result = done.value
            else:
                tasks.append(needed)
                result = None
        return result or []

    def spend(self, steps: int) -> None:
        """Raise ComparisonTooLarge when all work so far is too much."""
        self.steps_spent += steps
        if self.steps_spent > MAX_STEPS:
            raise ComparisonTooLarge(f"more than {MAX_STEPS} steps to compare two schemas")

    def below(self, differences: _Found, *steps: str) -> _Found:
        """The same differences as seen from further up."""
        self.spend(len(differences))
        return [difference.below(*steps) for difference in differences] if differences else differences

    def of(self, type_: str | None, *steps: str) -> _Found:
        """One difference, unless there is none or the policy accepts it."""
        return [] if not type_ or type_ in self.accepted else [SchemaDifference(type_).below(*steps)]

    def compare(
        self, original: model.SchemaLocation | None, update: model.SchemaLocation | None, brief: bool = False
    ) -> _Task:
        """The differences of two schemas, seen from them; with `brief` some of them are enough."""
        answer = self.known_differences(original, update, brief)
        if answer is not None or original is None or update is None:
            return answer or []
        original, update = original.target(), update.target()
        pair = (id(original), id(update))
        self.open.add(pair)
        differences = yield from self.judge(original, update, brief)
        self.open.remove(pair)
        if len(differences) > MAX_DIFFERENCES:
            raise ComparisonTooLarge(f"more than {MAX_DIFFERENCES} differences")
        if brief and differences:
            self.broken[pair] = differences
        else:
            self.known[pair] = differences
        return differences

    def known_differences(
        self, original: model.SchemaLocation | None, update: model.SchemaLocation | None, brief: bool = False
    ) -> _Found | None:
        """The differences where no other schemas have to be compared for them, or were compared before; else None."""
        if update is None:
            return []
        if original is None:
            return self.of("SCHEMA_ADDED")
        # Confluent follows one reference: one that leads to another is a type of its own.
        if original.is_reference_to_reference() != update.is_reference_to_reference() and not any(
            isinstance(node_of(entry.target()), model.Combined) for entry in (original, update)
        ):
            return self.type_changed(original.referred(), update.referred())
        original, update = original.target(), update.target()
        self.spend(1)
        pair = (id(original), id(update))
        if pair in self.open:
            self.assumed |= pair not in self.seed
            return self.seed.get(pair, [])
        differences = self.known.get(pair) or (self.broken.get(pair) if brief else None)
        if differences or pair in self.known:
            return differences or []
        before, after = node_of(original), node_of(update)
        if isinstance(before, model.Combined) or isinstance(after, model.Combined):
            return None
        if name_of(before) != name_of(after):
            return self.type_changed(original, update)
        match before, after:
            case model.Text(), model.Text():
                return self.limits("Text", before, after) + self.of(pattern_change(before, after), "pattern")
            case model.Numeric(), model.Numeric():
                changed = multiple_of(before.limits.get("multipleOf"), after.limits.get("multipleOf"))
                narrowed = "TYPE_NARROWED" if after.integer and not before.integer else None
                return self.limits("Numeric", before, after) + self.of(changed, "multipleOf") + self.of(narrowed)
            case model.Values(), model.Values():
                return self.of(values_change(before, after), before.keyword)
            case (model.Object(), _) | (model.Array(), _) | (model.Not(), _):
                return None
        return []

    def judge(self, original: model.SchemaLocation, update: model.SchemaLocation, brief: bool) -> _Task:
        """The differences of two schemas that are not settled by themselves."""
        before, after = node_of(original), node_of(update)
        if isinstance(before, model.Combined) != isinstance(after, model.Combined):
            for entry, other in alternatives(original, update):
                differences = yield self.compare(entry, other, brief=True)
                if not differences:
                    return []
        if name_of(before) != name_of(after):
            return self.type_changed(original, update)
        match before, after:
            case model.Combined(), model.Combined():
                return (yield from self.combined(before, after))
            case model.Object(), model.Object():
                return (yield from self.objects(before, after, brief))
            case model.Array(), model.Array():
                return (yield from self.arrays(before, after))
            case model.Not(), model.Not():
                # What is forbidden has to become less.
                differences = yield self.compare(after.schema, before.schema, brief=True)
                return self.of("NOT_TYPE_EXTENDED", "not") if differences else []
        return []

    def type_changed(self, original: model.SchemaLocation, update: model.SchemaLocation) -> _Found:
        if isinstance(original.node, model.Never) or isinstance(update.node, model.Empty):
            return []
        return [] if are_bytes(original, update) else self.of("TYPE_CHANGED")

    def limits(self, kind: str, before: model.Typed, after: model.Typed) -> _Found:
        changes = bounds(ORDER[kind], before.limits, after.limits)
        return [entry for type_, keyword in changes for entry in self.of(type_, keyword)]

    def combined(self, before: model.Combined, after: model.Combined) -> _Task:
        if before.criterion != after.criterion and not widens(before, after):
            return self.of("COMBINED_TYPE_CHANGED")
        originals, updates = before.compared_subschemas(), after.compared_subschemas()
        self.spend(len(originals) + len(updates))
        originals, updates = distinct(originals), distinct(updates)
        differences: _Found = []
        if after.criterion == model.ALL and len(updates) > len(originals):
            differences += self.of("PRODUCT_TYPE_EXTENDED")
        if before.criterion != model.ALL and len(updates) < len(originals):
            differences += self.of("SUM_TYPE_NARROWED")
        edges = []
        for original in originals:
            fitting = []
            for at, update in enumerate(updates):
                problems = self.known_differences(original, update, brief=True)
                if problems is None:
                    problems = yield self.compare(original, update, brief=True)
                if not problems:
                    fitting.append(at)
            edges.append(fitting)
        if count_matches(edges, len(updates)) < min(len(originals), len(updates)):
            differences += self.of("COMBINED_TYPE_SUBSCHEMAS_CHANGED")
        return differences

    def objects(self, before: model.Object, after: model.Object, brief: bool) -> _Task:
        differences = self.required(before, after)
        if brief and differences:
            return differences
        differences += yield from self.properties(before, after, brief)
        if brief and differences:
            return differences
        differences += yield from self.dependencies(before, after)
        differences += yield from self.additional(before, after, "PROPERTIES", "additionalProperties")
        differences += yield from self.unevaluated(before, after, "Properties")
        return differences + self.limits("Object", before, after)

    def additional(
        self, before: model.Object | model.Array, after: model.Object | model.Array, what: str, step: str
    ) -> _Task:
        if before.additional and not after.additional:
            return self.of(f"ADDITIONAL_{what}_REMOVED", step)
        if before.additional != after.additional:
            return []
        if before.additional_schema is None and after.additional_schema is not None:
            return self.of(f"ADDITIONAL_{what}_NARROWED", step)
        return self.below((yield self.compare(before.additional_schema, after.additional_schema)), step)

    def unevaluated(self, before: model.Object | model.Array, after: model.Object | model.Array, what: str) -> _Task:
        """`unevaluatedProperties` or `unevaluatedItems`: that they go or say less breaks nothing."""
        old, new, step = before.unevaluated, after.unevaluated, f"unevaluated{what}"
        if new is None or (old is not None and isinstance(old.node, model.Never) > isinstance(new.node, model.Never)):
            return []
        if old is None or type(old.node) is not type(new.node):
            if isinstance(new.node, model.Never):
                return self.of(f"UNEVALUATED_{what.upper()}_REMOVED", step)
            if old is None or isinstance(old.node, model.Empty):
                return self.of(f"UNEVALUATED_{what.upper()}_NARROWED", step)
            if isinstance(new.node, model.Empty):
                return []
        return self.below((yield self.compare(old, new)), step)

    def required(self, before: model.Object, after: model.Object) -> _Found:
        """Properties that both know and only the update requires; a default makes up for that."""
        missing = {
            name
            for name in after.required - before.required
            if name in before.properties and name in after.properties and not after.properties[name].has_default
        }
        self.spend(1 + len(missing))
        ordered = (name for name in hash_order(before.properties) if name in missing) if len(missing) > 1 else missing
        return [entry for name in ordered for entry in self.of("REQUIRED_ATTRIBUTE_ADDED", "required", name)]

    def properties(self, before: model.Object, after: model.Object, brief: bool) -> _Task:
        by_name: dict[str, _Found] = {}
        for name in chain(before.properties, (name for name in after.properties if name not in before.properties)):
            old, new = before.properties.get(name), after.properties.get(name)
            if new is None:
                problems = yield from self.property_removed(old, after, name)
            elif old is None:
                problems = yield from self.property_added(new, before, after, name)
            else:
                answer = self.known_differences(old, new, brief)
                problems = answer if answer is not None else (yield self.compare(old, new, brief))
            if problems:
                by_name[name] = self.below(problems, "properties", name)
                if brief:
                    break
        if len(by_name) > 1:
            every = [*before.properties, *after.properties]
            self.spend(len(every))
            return [entry for name in hash_order(every) for entry in by_name.get(name, ())]
        return [problem for problems in by_name.values() for problem in problems]

    def property_removed(self, old: model.SchemaLocation | None, after: model.Object, name: str) -> _Task:
        """Only what the update allows without the property counts."""
        self.spend(1)
        if is_open(after):
            return []
        cover = self.cover(after, name)
        if cover is not None:
            problems = yield self.compare(old, cover)
            uncovered = self.of("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL")
            return problems + uncovered if problems else []
        never = old is not None and isinstance(old.node, model.Never)
        return [] if never else self.of("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL")

    def property_added(self, new: model.SchemaLocation, before: model.Object, after: model.Object, name: str) -> _Task:
        """Only what the original allowed without the property counts."""
        self.spend(1)
        required, default = name in after.required, new.has_default
        if is_open(before):
            if isinstance(new.node, model.Empty):
                return []
            if not required:
                return self.of("OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL")
            with_default = "_WITH_DEFAULT" if default else ""
            return self.of(f"REQUIRED_PROPERTY{with_default}_ADDED_TO_OPEN_CONTENT_MODEL")
        differences: _Found = []
        cover = self.cover(before, name)
        if cover is not None:
            problems: _Found = yield self.compare(cover, new)
            uncovered = self.of("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL")
            differences = problems + uncovered if problems else []
        return differences + (
            self.of("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL") if required and not default else []
        )

    def cover(self, node: model.Object, name: str) -> model.SchemaLocation | None:
        """The schema that a partially open object has for a property it doesn't name."""
        for pattern, schema in node.patterns.items():
            try:
                if matches(pattern, name, self.pattern_seconds):
                    return schema
            except UnusablePattern as error:
                raise ComparisonTooLarge(str(error)) from None
        return rest_schema(node)

    def dependencies(self, before: model.Object, after: model.Object) -> _Task:
        differences: _Found = []
        for name in hash_order(after.needs):
            old, new = before.needs.get(name), after.needs[name]
            if old is None or not new <= old:
                change = "ADDED" if old is None else "EXTENDED" if new >= old else "CHANGED"
                differences += self.of(f"DEPENDENCY_ARRAY_{change}", "dependencies", name)
        for name in hash_order(after.then):
            if name not in before.then:
                differences += self.of("DEPENDENCY_SCHEMA_ADDED", "dependencies", name)
            else:
                problems = yield self.compare(before.then[name], after.then[name])
                differences += self.below(problems, "dependencies", name)
        return differences

    def arrays(self, before: model.Array, after: model.Array) -> _Task:
        differences = self.below((yield self.compare(before.all_items, after.all_items)), "items")
        differences += yield from self.items(before, after)
        differences += yield from self.additional(before, after, "ITEMS", "additionalItems")
        differences += yield from self.unevaluated(before, after, "Items")
        differences += self.limits("Array", before, after)
        if after.unique and not before.unique:
            differences += self.of("UNIQUE_ITEMS_ADDED", "uniqueItems")
        return differences + self.limits("contains", before, after)

    def items(self, before: model.Array, after: model.Array) -> _Task:
        differences: _Found = []
        self.spend(max(len(before.items), len(after.items)))
        for at in range(max(len(before.items), len(after.items))):
            old = before.items[at] if at < len(before.items) else rest_schema(before)
            new = after.items[at] if at < len(after.items) else rest_schema(after)
            problems: _Found = []
            if old is not None and new is not None:
                problems = yield self.compare(old, new)
                change = "REMOVED" if at >= len(after.items) else "ADDED" if at >= len(before.items) else None
                if problems and change:
                    problems = problems + self.of(f"ITEM_{change}_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL")
            elif old is not None and not (is_open(after) or isinstance(old.node, model.Never)):
                problems = self.of("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL")
            elif new is not None and is_open(before) and not isinstance(new.node, model.Empty):
                problems = self.of("ITEM_ADDED_TO_OPEN_CONTENT_MODEL")
            differences += self.below(problems, f"items/{at}")
        return differences
