"""What is private of a table over its history: columns stay private when they are renamed."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange, column_before, schema_changes
from ticdc_bridge.spark_jobs.lake.table_histories import TableHistories
from ticdc_bridge.spark_jobs.pipeline.private_columns import EXCLUDE, NULL, ColumnMask, PrivateColumns, strongest


def follow_renames(private: PrivateColumns, statements: Iterable[DdlText]) -> PrivateColumns:
    """With all names that private columns had. SetupError USAGE for statements that can't be followed."""
    if not private.rules:
        return private
    histories, found = TableHistories(statements), list[tuple[list[TableId], ColumnMask]]()
    for chain in (chains := histories.tables()):
        ids = [id_.folded for _, id_ in chain.names() if id_ is not None]
        if (mask := private.of_table(ids)).rules:
            steps = schema_changes(histories.statements_of(chain), chain.name)
            found.append((ids, replace(mask, methods=_methods_over_time(mask, steps))))
    taken = {rule for _, mask in found for rule in mask.rules if any(map(rule.takes, mask.methods))}
    for rule in (rule for rule in private.rules if chains and rule not in taken):
        what = f"private column {rule.pattern}: no table of {rule.tables} that is known has such a column"
        print(f"warning: {what}", file=sys.stderr)
    is_new = True
    while is_new:  # tables that had one name, of which a row tells no more, have one mask
        is_new = False
        for ids, mask in found:
            joined = private.of_table(ids)
            joined = replace(joined, methods=strongest([mask.methods, joined.methods]))
            is_new |= any(private.masks.get(id_) != joined for id_ in ids)
            private = replace(private, masks={**private.masks, **dict.fromkeys(ids, joined)})
    return private


def _methods_over_time(mask: ColumnMask, steps: Sequence[SchemaChange]) -> dict[str, str]:
    """The methods of private columns by all names that they had, in small letters."""
    tables = [table for step in steps for table in (step.before, step.after) if table is not None]
    columns = {column.name for table in tables for column in table.columns}
    methods = {name.lower(): method for name in columns if (method := mask.method_of(name))}
    renames = [(old.lower(), new.lower()) for step in steps for old, new in step.renamed.items()]
    for _ in renames:  # a chain of renames is no longer
        for old, new in renames:
            both = strongest({old: methods[name]} for name in (old, new) if name in methods)
            methods |= dict.fromkeys((old, new), both[old]) if both else {}
    return methods


def mask_steps(steps: Sequence[SchemaChange], mask: ColumnMask) -> list[SchemaChange]:
    """The history of the table as the lake has it. SetupError STOPPED where its newest version can't be masked."""
    if (newest := next((step.after for step in reversed(steps) if step.after is not None), None)) is not None:
        mask.check(newest)
    return [_mask_step(step, mask) for step in steps]


def _mask_step(step: SchemaChange, mask: ColumnMask) -> SchemaChange:
    """One after which hashes, or the rows of dropped partitions, can't be known is `unsure`."""
    renamed = {old: new for old, new in step.renamed.items() if mask.method_of(new) != EXCLUDE}
    before, after = (table and mask.mask_table(table) for table in (step.before, step.after))
    masked = replace(step, before=before, after=after, renamed=renamed)
    for column in step.after.columns if step.after is not None else ():
        old, is_hashed = column_before(step, column.name), mask.method_of(column.name) not in (None, EXCLUDE, NULL)
        if is_hashed and old is not None:
            is_text = old.type.kind is Kind.TEXT
            is_cut = is_text and column.length is not None and column.length < (old.length or 0)
            if old.type.kind is not column.type.kind or is_cut:
                why = f"column {column.name} got another type, and nothing tells the hashes of its values from those"
                return replace(masked, unsure="MODIFY COLUMN", why=why)
    partitioning = step.removed.partitioning if step.removed is not None else None
    if name := next((n for n in (partitioning.columns if partitioning else ()) if mask.method_of(n)), None):
        why = f"column {name}, which tells the partition of a row, is private"
        return replace(masked, removed=None, unsure=step.word, word="", why=why)
    return masked
