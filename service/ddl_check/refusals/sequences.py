"""What TiDB refuses of sequences: numbers that conflict, and those that are not there.

Source: upstream tidb `pkg/ddl/sequence.go` (handleSequenceOptions, validateSequenceOptions).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.parser.statements import DefaultValue, NamedObject, Numbers
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.service.ddl_check.refusals.columns import Refusal
from ticdc_bridge.service.ddl_check.refusals.definitions import wrong_object
from ticdc_bridge.service.ddl_check.refusals.generated import generated_names

_MOST: Final = 2**63 - 1


def conflict(id_: TableId) -> Refusal:
    return Refusal(4136, f"Sequence '{id_}' values are conflicting")


def is_conflict(written: Numbers, *, new: bool) -> bool:
    """Whether TiDB refuses the numbers of a sequence. new: what is not written has TiDB's defaults; else it is what the
    sequence has, which is not known here."""
    numbers = dict(written)
    step = numbers.get("INCREMENT", 1 if new else None)
    cache = numbers.get("CACHE", 1000 if new and "NOCACHE" not in numbers else None)
    low, high, start = (numbers.get(word) for word in ("MINVALUE", "MAXVALUE", "START"))
    if new:
        up = step is None or step >= 0
        low = low if low is not None else 1 if up else -_MOST
        high = high if high is not None else _MOST - 1 if up else -1
        start = start if start is not None else max(low, 1) if up else min(high, -1)
    pairs = ((low, start, 0), (start, high, 0), (low, high, 1))
    return (
        step == 0
        or (cache is not None and "CACHE" in numbers and cache <= 0)
        or high == _MOST
        or low == -_MOST - 1
        or any(a is not None and b is not None and a > b - least for a, b, least in pairs)
        or (step is not None and cache is not None and cache >= (_MOST - abs(step)) // abs(step))
    )


def of_default_sequence(catalog: Catalog, default: DefaultValue | None) -> Iterator[Refusal]:
    """NEXT VALUE FOR in ALTER TABLE; CREATE TABLE takes a sequence that is not there (upstream `preprocess.go`)."""
    if default is None or default.kind != "expr" or not default.text.startswith("nextval("):
        return
    names = generated_names(default.text)
    if len(names) == 2 and catalog.exists(TableId(*names)) is None:  # one where no database is chosen
        yield Refusal(1146, f"Table '{TableId(*names)}' doesn't exist", certain=False)


def of_altered_sequence(catalog: Catalog, about: NamedObject, db: str) -> Iterator[Refusal]:
    id_ = about.name.in_db(db)
    there = catalog.exists(id_)
    relation = catalog.relation(id_)
    if there is None:
        if not about.lenient:
            yield Refusal(1146, f"Table '{id_}' doesn't exist", certain=False)
    elif relation is None or relation.kind != "sequence":
        yield wrong_object(id_, "SEQUENCE")
    elif is_conflict(about.numbers, new=False):
        yield conflict(id_)
