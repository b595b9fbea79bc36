"""Which tables a job takes (`--tables 'shop.*'`), and where each one goes (`--out delta:/lake/{schema}/{table}`)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.schemas.model.table_filter import PatternError, TableFilter
from ticdc_bridge.spark_jobs.io.locations import is_catalog_name

_FIELDS: Final = re.compile(r"{(\w+)}")
_PLAIN: Final = re.compile(r"[\w$\-]+\.[\w$\-]+")
_COMMA: Final = re.compile(r"""((?:`[^`]*`|"[^"]*"|/(?:[^/\\]|\\.)*/|[^,])+)""")
_UNSAFE: Final = re.compile(r"\A\.+|[^\w $@+,=~()!.-]")  # in the name of a folder
_IN_CATALOG: Final = re.compile(r"[\w$-]+")
DEFINITION_FILE: Final = re.compile(r"(?i)\.(?:sql|jsonl?|ndjson|ddl|txt)(?:\.(?:gz|bz2|xz|zst|lz4))?\Z")


@dataclass(frozen=True)
class TableChoice:
    """Tables by patterns of TiDB's table filter (schemas.model.table_filter), in any letters; none: all tables."""

    patterns: tuple[str, ...] = ()

    @staticmethod
    def of(texts: Iterable[str]) -> TableChoice:
        """From lists with commas, such as "shop.*,!shop.tmp_*". SetupError USAGE."""
        choice = TableChoice(tuple(match.strip() for text in texts for match in _COMMA.findall(text) if match.strip()))
        if not choice.patterns:
            raise SetupError("USAGE", details="--tables: db.table or a pattern such as 'shop.*' is needed")
        try:
            _ = choice._filter
        except PatternError as error:
            raise SetupError("USAGE", details=f"--tables: {error}; definitions are given by {Hint.DDL}") from error
        if all(pattern.startswith("!") for pattern in choice.patterns):
            details = f"--tables {choice}: this leaves tables out and takes none: put '*.*' before it"
            raise SetupError("USAGE", details=details)
        return choice

    @staticmethod
    def of_table(id_: TableId) -> TableChoice:
        """The one table."""
        return TableChoice((".".join("`" + name.replace("`", "``") + "`" for name in (id_.db, id_.table)),))

    @property
    def only(self) -> str | None:
        """The one table's name, where the patterns are a name."""
        return self.patterns[0] if len(self.patterns) == 1 and _PLAIN.fullmatch(self.patterns[0]) else None

    def takes(self, id_: TableId) -> bool:
        """True if the table is one of them."""
        taken = self._answers.get(id_)
        if taken is None:
            taken = not self.patterns or self._filter.matches(id_.db, id_.table)
            if len(self._answers) < _MOST_ANSWERS:
                self._answers[id_] = taken
        return taken

    def __str__(self) -> str:
        return ",".join(self.patterns) or "*.*"

    @cached_property
    def _filter(self) -> TableFilter:
        return TableFilter(self.patterns)

    @cached_property
    def _answers(self) -> dict[TableId, bool]:
        return {}

    def __getstate__(self) -> dict[str, tuple[str, ...]]:
        return {"patterns": self.patterns}


_MOST_ANSWERS = 100_000


@dataclass(frozen=True)
class TableLayout:
    """The columns by which a table's files are laid out when it is made."""

    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()

    @staticmethod
    def of(partition_by: str | None, cluster_by: str | None) -> TableLayout:
        """From lists with commas."""
        texts = (partition_by or "", cluster_by or "")
        return TableLayout(*(tuple(word.strip() for word in text.split(",") if word.strip()) for text in texts))


NO_LAYOUT: Final = TableLayout()


@dataclass(frozen=True)
class TableOutput:
    """The places of some tables, before --out, --changelog and --versions: with {schema} and {table} where these are
    several; None: as the other tables have it, which `layout` may be too. private: patterns of columns, and what is
    done with these (private_columns.METHODS).
    """

    tables: TableChoice
    location: str | None
    layout: TableLayout | None = None
    changelog: str | None = None
    versions: str | None = None
    private: tuple[tuple[str, str], ...] = ()


def is_rule(location: str) -> bool:
    """True if a location in the lake has a place for each table: {schema} or {table} in it."""
    return location.startswith(("delta:", "iceberg:")) and bool({"schema", "table"} & {*_FIELDS.findall(location)})


def check_rule(rule: str, option: str = "--out") -> None:
    """SetupError USAGE for a rule by which several tables would go to one place, or that has an unknown word."""
    fields = _FIELDS.findall(rule)
    unknown = [field for field in fields if field not in ("schema", "table")]
    if unknown or "table" not in fields:
        what = f"{{{unknown[0]}}} is not known" if unknown else "{table} is missing"
        details = f"{option} {rule}: {what}; each table's place is named by {{schema}} and {{table}}"
        raise SetupError("USAGE", details=details)


def location_by_rule(rule: str, id_: TableId) -> str:
    """The place of a table, with %XX for what a path can't have; a location that is no rule is its own.

    SetupError USAGE for a name that no catalog takes, and as of `check_rule`.
    """
    if not is_rule(rule):
        return rule
    check_rule(rule)
    catalog = rule.startswith("iceberg:") or is_catalog_name(rule.removeprefix("delta:"))
    for name in (id_.db, id_.table) if catalog else ():
        if not _IN_CATALOG.fullmatch(name):
            details = f"--out {rule}: {name!r} can't be a name there: give table {id_} a place of its own (--file)"
            raise SetupError("USAGE", details=details)
    names = {"schema": _path_name(id_.db), "table": _path_name(id_.table)}
    location = _FIELDS.sub(lambda match: names[match[1]], rule)
    is_folder = not catalog and is_catalog_name(location.removeprefix("delta:"))
    return location.replace("delta:", "delta:./", 1) if is_folder else location


def _path_name(name: str) -> str:
    def escape(match: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))

    return _UNSAFE.sub(escape, name)
