"""Columns that must not reach the lake: left out of its tables, or masked, before anything is written.

Rules take columns by their names. Such a column stays private under the names that it had before and gets later
(spark_jobs.lake.column_masks). A hash is that of a value's plain form, and alike in all tables, so that they join.
"""

import hashlib
import hmac
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Final

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import BY_NAME, Kind
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice, TableOutput

EXCLUDE, NULL, HMAC, SHA256 = "exclude", "null", "hmac", "sha256"
METHODS: Final = (EXCLUDE, NULL, HMAC, SHA256)
"""Of several for one column the first one holds."""
_KEY: Final = "BRIDGE_MASK_KEY"
"""The environment variable with the key of hmac."""
_LEAST_KEY: Final = 16
_HASHED: Final = (Kind.TEXT, Kind.INTEGER)
"""Kinds whose plain form is the same wherever a value comes from."""


@dataclass(frozen=True)
class ColumnRule:
    """pattern: of columns' names, with * and ?, in any letters."""

    tables: TableChoice
    pattern: str
    method: str

    def takes(self, name: str) -> bool:
        return fnmatchcase(name.lower(), self.pattern.lower())


@dataclass(frozen=True)
class ColumnMask:
    """What is private of a table. methods: by the names, in small letters, that its private columns had at any time."""

    rules: Sequence[ColumnRule] = ()
    methods: Mapping[str, str] = field(default_factory=dict)
    key: bytes = field(default=b"", repr=False)

    def method_of(self, name: str) -> str | None:
        """One of METHODS; None for a column that is not private."""
        found = {rule.method for rule in self.rules if rule.takes(name)} | {self.methods.get(name.lower(), "")}
        return next((method for method in METHODS if method in found), None)

    def hash(self, text: str, method: str) -> str:
        """The hash of a text in hexadecimal digits, by HMAC (of SHA-256) or SHA256."""
        if method == HMAC:
            return hmac.digest(self.key, text.encode(), "sha256").hex()
        return hashlib.sha256(text.encode()).hexdigest()

    def mask_table(self, table: Table) -> Table:
        """A version of the table as the lake has it."""
        columns = (c if c.virtual else self._mask_column(c) for c in table.columns)
        return replace(table, columns=tuple(c for c in columns if c is not None))

    def _mask_column(self, column: Column) -> Column | None:
        """None for one that is left out."""
        method = self.method_of(column.name)
        if method is None or method == EXCLUDE:
            return None if method else column
        if method == NULL:
            no_default = replace(column, has_default=False, default=None, default_is_expr=False)
            return replace(no_default, nullable=True, generated=None)
        default = column.default
        if column.has_default_value and not column.default_is_expr:
            default = self.hash(str(default), method)
        return Column(
            column.name, BY_NAME["varchar"], length=64, nullable=column.nullable, has_default=column.has_default,
            default=default, default_is_expr=column.default_is_expr, handle_key=column.handle_key,
            primary_key=column.primary_key, charset="utf8mb4", collate="utf8mb4_bin", id=column.id,
            may_be=column.may_be,
        )  # fmt: skip

    def check(self, table: Table) -> None:
        """SetupError STOPPED for a column of the table, as TiDB has it, that can't be masked so, USAGE for none."""
        for column in table.columns:
            method, what = self.method_of(column.name), ""
            if method in (HMAC, SHA256) and column.type.kind not in _HASHED:
                what = f"is {column.type.name}: texts and integers can be hashed. Exclude it, or mask it by null"
            elif method and column.handle_key and method != HMAC:
                what = f"is of the key, which tells rows apart: mask it by {HMAC}"
            elif method and column.handle_key and "_ci" in column.collate:
                what = f"is of the key, and its collation {column.collate} takes several texts for one: no hash does"
            if what:
                raise SetupError("STOPPED", where=str(table.id), details=f"private column {column.name} {what}")
        for rule in self.rules:
            is_name = rule.tables.only is not None and not {"*", "?", "["} & {*rule.pattern}
            if is_name and not any(map(rule.takes, (*self.methods, *table.by_name))):
                details = f"there is no column {rule.pattern}, which --exclude or --mask makes private: mend the name"
                raise SetupError("USAGE", details=f"table {table.id}: {details}")  # no table waits, unmasked, by a typo

    @cached_property
    def facts(self) -> dict[str, str]:
        """The method by column, as a table of the lake keeps it: with a digest of the key."""
        of_key = {HMAC: f"{HMAC} {self.hash('ticdc-bridge', HMAC)[:12]}"}
        return {name: of_key.get(method, method) for name, method in sorted(self.methods.items())}


@dataclass(frozen=True)
class PrivateColumns:
    """A job's rules. masks: where the history is known, of tables by all folded names that they had."""

    rules: Sequence[ColumnRule] = ()
    key: bytes = field(default=b"", repr=False)
    masks: Mapping[TableId, ColumnMask] = field(default_factory=dict)

    @classmethod
    def of(
        cls, exclude: Iterable[str], mask: Iterable[str], tables: TableChoice, outputs: Sequence[TableOutput]
    ) -> "PrivateColumns":
        """exclude: patterns; mask: PATTERN=METHOD; of `tables`, beside what `outputs` have. SetupError USAGE."""
        rules = [ColumnRule(output.tables, *pair) for output in outputs for pair in output.private]
        rules += [ColumnRule(tables, *pair) for pair in rule_pairs(exclude, mask)]
        return cls(rules, read_key(is_needed=any(rule.method == HMAC for rule in rules)))

    @property
    def digest(self) -> str:
        """Of the rules and the key; "": there are none."""
        if not self.rules:
            return ""
        of_key = hashlib.sha256(self.key).hexdigest()
        return hashlib.sha256(repr((self.rules, of_key)).encode()).hexdigest()[:12]

    def of_table(self, ids: Iterable[TableId]) -> ColumnMask:
        """ids: the names that the table had."""
        ids = [*ids]
        known = [mask for id_ in ids if (mask := self.masks.get(id_.folded)) is not None]
        by_name = {rule for rule in self.rules if any(map(rule.tables.takes, ids))}
        rules = [rule for rule in self.rules if rule in by_name.union(*(mask.rules for mask in known))]
        return ColumnMask(rules, strongest(mask.methods for mask in known), self.key)


NOT_PRIVATE: Final = PrivateColumns()


def read_key(is_needed: bool = True) -> bytes:
    """The key of hmac, from the environment. SetupError USAGE for one that is too short, where it is needed."""
    key = os.environ.get(_KEY, "").encode()
    if is_needed and len(key) < _LEAST_KEY:
        details = f"--mask {HMAC}: set {_KEY} to a secret of at least {_LEAST_KEY} bytes, the same for all jobs"
        raise SetupError("USAGE", details=details)
    return key


def rule_pairs(exclude: Iterable[str], mask: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Patterns, and PATTERN=METHOD, as patterns with their methods. SetupError USAGE."""
    pairs = [(pattern.strip(), EXCLUDE) for pattern in exclude]
    for text in mask:
        pattern, _, method = (word.strip() for word in text.rpartition("="))
        if not pattern or method not in METHODS[1:]:
            details = f"mask {text}: COLUMN=METHOD is needed, METHOD one of {', '.join(METHODS[1:])}"
            raise SetupError("USAGE", details=details)
        pairs.append((pattern, method))
    return tuple(pairs)


def strongest(methods: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Methods by column: of several for one the first of METHODS."""
    joined = dict[str, str]()
    for each in methods:
        for name, method in each.items():
            joined[name] = min(method, joined.get(name, method), key=METHODS.index)
    return joined
