"""Expressions of generated columns and of expression indexes that TiDB refuses.

Source: upstream tidb `pkg/ddl/generated_column.go` (checkIllegalFn4Generated), `pkg/expression/function_traits.go`,
`pkg/sessionctx/variable/varsutil.go` (GAFunction4ExpressionIndex).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ticdc_bridge.schemas.ddl.parser.calls import calls_of
from ticdc_bridge.schemas.ddl.parser.statements import ColumnDef
from ticdc_bridge.service.ddl_check.refusals.columns import Refusal
from ticdc_bridge.service.ddl_check.refusals.functions import of_calls

DISALLOWED: Final = frozenset("""
    benchmark connection_id curdate current_date current_role current_time current_timestamp current_user curtime
    database found_rows get_lock is_free_lock is_used_lock last_insert_id load_file localtime localtimestamp nextval now
    rand random_bytes release_all_locks release_lock row_count schema session_user setval sleep sysdate system_user
    unix_timestamp user utc_date utc_time utc_timestamp uuid uuid_short values version lastval
""".split())  # fmt: skip
_AGGREGATES: Final = frozenset("""
    avg bit_and bit_or bit_xor count group_concat max min sum std stddev stddev_pop stddev_samp variance var_pop
    var_samp json_arrayagg json_objectagg approx_count_distinct approx_percentile grouping
""".split())  # fmt: skip
_CALL = re.compile(r"([a-z_][a-z0-9_]*)\(")
_NAME = re.compile(r"`((?:[^`]|``)+)`")
_TEXTS = re.compile(r"'(?:[^']|'')*'")
_ROW = re.compile(r"\brow\(")
# Functions of expression indexes that need no setting of the server (upstream GAFunction4ExpressionIndex).
_IN_INDEXES: Final = frozenset("""
    lower upper md5 reverse vitess_hash tidb_shard json_type json_extract json_unquote json_array json_object json_set
    json_insert json_replace json_remove json_contains json_contains_path json_valid json_array_append json_array_insert
    json_merge_patch json_merge_preserve json_pretty json_quote json_schema_valid json_search json_storage_size
    json_depth json_keys json_length
""".split())  # fmt: skip


def generated_names(expression: str) -> list[str]:
    """The columns that an expression names, in TiDB's own text of it."""
    return [name.replace("``", "`") for name in _NAME.findall(_TEXTS.sub("''", expression))]


def _without_texts(expression: str) -> str:
    return _NAME.sub("``", _TEXTS.sub("''", expression))


def outermost_function(expression: str) -> str:
    """The function whose call is the whole expression, in TiDB's own text of it; "" where it is none."""
    bare = _without_texts(expression)
    called = _CALL.match(bare)
    depth, at = 0, called.end() - 1 if called else len(bare)
    while at < len(bare):
        depth += (bare[at] == "(") - (bare[at] == ")")
        at += 1
        if not depth:
            break
    return called[1] if called and at == len(bare) and not depth else ""


def of_arrays(texts: Sequence[str]) -> Iterator[Refusal]:
    """CAST … ARRAY in the expressions of an index (upstream `pkg/expression/builtin_cast.go`, CastFuncForArray)."""
    arrays = [text for text in texts if _has_array(text)]
    if len(arrays) > 1:
        yield _unsupported("more than one multi-valued key part per index")
    for text in arrays:
        while text.startswith("(") and text.endswith(")"):
            text = text[1:-1]
        cast = _ARRAY.fullmatch(text)
        if cast is None or _has_array(cast[1]):
            yield _unsupported(_ONLY_IN_INDEX)
        elif cast[1].startswith("json_unquote("):
            where = "argument 1 to function cast_as_array; a JSON string or JSON type is required."
            yield Refusal(3146, f"Invalid data type for JSON data in {where}")


# The types that TiDB takes.
_ARRAY: Final = re.compile(
    r"cast\((.*) as (?:(?:un)?signed|(?:char|binary)\(\d+\)|double|date|(?:datetime|time)(?:\(\d\))?) array\)",
    re.DOTALL,
)
_ONLY_IN_INDEX: Final = (
    "Use of CAST( .. AS .. ARRAY) outside of functional index in CREATE(non-SELECT)/ALTER TABLE or in general "
    "expressions"
)


def _has_array(text: str) -> bool:
    return re.search(r" array\)", _TEXTS.sub("''", text), re.IGNORECASE) is not None


def _unsupported(what: str) -> Refusal:
    return Refusal(1235, f"This version of TiDB doesn't yet support '{what}'")


def of_generated(defined: ColumnDef) -> Iterator[Refusal]:
    """Of a generated column; of any other nothing."""
    if defined.generated is None:
        return
    if defined.default is not None:
        yield Refusal(1221, "Incorrect usage of DEFAULT and generated column")
    if defined.auto_increment:
        yield Refusal(1221, "Incorrect usage of AUTO_INCREMENT and generated column")
    if defined.on_update:
        yield Refusal(1221, "Incorrect usage of ON UPDATE and generated column")
    if defined.primary_key and not defined.stored:
        text = "'Defining a virtual generated column as primary key' is not supported for generated columns."
        yield Refusal(3106, text)
    if _has_array(defined.generated):
        yield _unsupported(_ONLY_IN_INDEX)
    text = f"Expression of generated column '{defined.name}'"
    disallowed = Refusal(3102, f"{text} contains a disallowed function.")
    yield from of_expression(defined.generated, disallowed, Refusal(3764, f"{text} cannot refer to a row value"))


def of_expression(text: str, disallowed: Refusal, row: Refusal) -> Iterator[Refusal]:
    """Of a generated column or of an index. disallowed, row: the errors for a function that is none or none of these,
    and for a row of values."""
    found = calls_of(text)
    names = {call.name for call in found}
    if names & _AGGREGATES:
        yield Refusal(1111, "Invalid use of group function")
    if names & DISALLOWED:
        yield disallowed
    if _ROW.search(_without_texts(text)):
        yield row
    yield from of_calls(found, lambda _: disallowed)
    if "nullif" in names:  # upstream's table of functions has it not, its planner has
        yield disallowed._replace(certain=False)


def of_index_functions(text: str) -> Iterator[Refusal]:
    """Functions that an expression index has only with a setting of the server."""
    if any(call.name not in (*_IN_INDEXES, "cast") for call in calls_of(text)):
        words = "Unsupported creating expression index containing unsafe functions without allow-expression-index"
        yield Refusal(8200, f"{words} in config", certain=False)
