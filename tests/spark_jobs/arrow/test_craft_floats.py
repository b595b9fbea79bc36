"""The compiled reader leaves to the decoder what an encoder that damages FLOATs may have written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.schemas.formats.craft.test_craft import PROOF, ZERO
from tests.spark_jobs.arrow.test_changes import _CHANGES
from tests.spark_jobs.arrow.test_messages import _batch
from tests.support.each import each
from tests.support.rows import Tables
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import BY_NAME
from ticdc_bridge.spark_jobs.arrow.worker_functions import DecodeBatches
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig

pytestmark = pytest.mark.skipif(not COMPILED, reason="numba is not installed")
TABLE = Table(TableId("shop", "t"), (Column("f", BY_NAME["float"]), Column("n", BY_NAME["int"])))


def _flags(messages: list[Message], table: Table, craft_float: str) -> list[list[str]]:
    tables: Any = Tables(table)
    config = CodecConfig("craft", FileSchemas([]), Options.of({"craft_float": craft_float}), tables)
    made = DecodeBatches(config, _CHANGES)([_batch(messages)])
    rows = [row for entry in made for row in entry.to_pylist()]
    assert {row["kind"] for row in rows} == {"row"}
    return [[f for f in row["flags"] if f.startswith("float")] for row in rows]


@each(("messages", "craft_float", "flagged"), [
    ([ZERO] * 30, "auto", 0),
    ([ZERO] * 30, "damaged", 30),
    ([ZERO] * 30, "sound", 0),
    ([PROOF, *[ZERO] * 30], "auto", 31),  # PROOF has another column: the decoder reads it, and proves the topic
    ([PROOF, *[replace(ZERO, topic="b")] * 30], "auto", 1),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:table shop.t. column m:RuntimeWarning")  # PROOF's, which the definition lacks
def test_floats_of_a_proven_topic(messages: list[Message], craft_float: str, flagged: int) -> None:
    flags = _flags(messages, TABLE, craft_float)
    assert sum(bool(flag) for flag in flags) == flagged
