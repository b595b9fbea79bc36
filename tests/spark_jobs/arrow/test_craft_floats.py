"""The compiled reader leaves to the decoder what an encoder that damages FLOATs may have written."""

from typing import Any

import pytest

from tests.schemas.formats.craft.test_craft import SOUND, ZERO
from tests.spark_jobs.arrow.test_changes import _CHANGES
from tests.spark_jobs.arrow.test_messages import _batch
from tests.support.each import each
from tests.support.rows import Tables
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import BY_NAME
from ticdc_bridge.spark_jobs.arrow.changes import ChangeReader
from ticdc_bridge.spark_jobs.arrow.worker_functions import DecodeBatches
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.result import Summary

pytestmark = pytest.mark.skipif(not COMPILED, reason="numba is not installed")
TABLE = Table(TableId("shop", "t"), (Column("f", BY_NAME["float"]), Column("n", BY_NAME["int"])))


@each(("craft_float", "flagged", "left"), [("auto", 30, 30), ("damaged", 60, 60), ("sound", 0, 0)])
def test_floats_of_a_batch(craft_float: str, flagged: int, left: int) -> None:
    """left: messages that the kernels leave to the decoder."""
    tables: Any = Tables(TABLE)
    config = CodecConfig("craft", FileSchemas([]), Options.of({"craft_float": craft_float}), tables)
    batch = _batch([ZERO, SOUND] * 30)
    rows = [row for entry in DecodeBatches(config, _CHANGES)([batch]) for row in entry.to_pylist()]
    assert {row["kind"] for row in rows} == {"row"}
    assert sum("float_damaged:f" in row["flags"] for row in rows) == flagged
    assert sum(len(others) for *_, others in ChangeReader(config, _CHANGES).process_batch(batch, Summary())) == left
