"""Rows without what is private of them (spark_jobs.pipeline.private_columns), in the workers that read them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.arrow.library import entries_of, offsets_of, pa, pc
from ticdc_bridge.spark_jobs.pipeline.private_columns import EXCLUDE, NULL, ColumnMask, PrivateColumns

_IMAGES = ("before", "after")


def mask_changes(changes: Any, private: PrivateColumns) -> Any:
    """Change events (an array of structs: spark_jobs.arrow.change_schema, with maps), their private columns masked."""
    columns = {field.name: values for field, values in zip(changes.type, changes.flatten(), strict=True)}
    tables = pc.binary_join_element_wise(columns["db"], columns["table"], "\0").dictionary_encode()
    masks = [private.of_table([TableId(*name.split("\0"))]) for name in tables.dictionary.to_pylist()]
    if not any(mask.rules for mask in masks):
        return changes
    numbers = np.asarray(tables.indices.fill_null(len(masks)))
    columns |= {image: _mask_rows(columns[image], numbers, [*masks, ColumnMask()]) for image in _IMAGES}
    return pa.StructArray.from_arrays([*columns.values()], fields=[*changes.type], mask=changes.is_null())


def _mask_rows(rows: Any, tables: Any, masks: Sequence[ColumnMask]) -> Any:
    """rows: maps in plain form; tables: the number of each one's mask."""
    counts, names, items = entries_of(rows)
    encoded = names.dictionary_encode()
    columns, kept = encoded.dictionary.to_pylist(), np.ones(len(items), bool)
    pairs = np.repeat(tables, counts) * len(columns) + np.asarray(encoded.indices)
    for pair in np.unique(pairs).tolist():
        mask, name = masks[pair // len(columns)], columns[pair % len(columns)]
        if (method := mask.method_of(name)) is None:
            continue
        found = pairs == pair
        if method == EXCLUDE:
            kept &= ~found
        else:
            chosen = pa.array(found)
            items = pc.replace_with_mask(items, chosen, mask_values(items.filter(chosen), method, mask))
    counts = np.bincount(np.repeat(np.arange(len(counts)), counts)[kept], minlength=len(counts))
    ends, left = pa.array(offsets_of(counts)), pa.array(kept)
    return pa.MapArray.from_arrays(ends, names.filter(left), items.filter(left), type=rows.type, mask=rows.is_null())


def mask_values(values: Any, method: str, mask: ColumnMask) -> Any:
    """The values of a column: text, or integers, of which hashes are text."""
    if method == NULL:
        return pa.nulls(len(values), values.type)
    encoded = values.cast(pa.string()).dictionary_encode()
    hashes = [mask.hash(text, method) for text in encoded.dictionary.to_pylist()]
    return pa.array(hashes, pa.string()).take(encoded.indices)
