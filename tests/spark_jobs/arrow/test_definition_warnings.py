"""Definitions that do not describe a message, where no summary tells of them: a Python warning, and flags."""

from typing import Any

import pytest

from tests.schemas.formats.test_definition_mismatch import DEFINITIONS, canal_message
from tests.spark_jobs.arrow.test_changes import _CHANGES
from tests.spark_jobs.arrow.test_messages import _batch
from tests.support.rows import Tables
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.arrow.worker_functions import DecodeBatches
from ticdc_bridge.spark_jobs.jobs.verify import ComparedInput, VerifyReport, compare
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig


def _side() -> CodecConfig:
    tables: Any = Tables(DEFINITIONS["a column fewer"][0])
    return CodecConfig("canal-json", FileSchemas([]), Options.of({}), tables)


def test_a_dataframe_has_the_flag_and_the_worker_warns() -> None:
    with pytest.warns(RuntimeWarning, match=r"table shop\.t: column state \(varchar in the message\)"):
        [made] = DecodeBatches(_side(), _CHANGES)([_batch([canal_message()])])
    assert made.column("flags").to_pylist() == [["definition_mismatch:state"]]


def test_verify_warns() -> None:
    image, report = _side(), VerifyReport()
    compare(ComparedInput([canal_message()], image, "in"), ComparedInput([canal_message()], image, "against"), report)
    [warning] = report.warnings()
    assert "column state (varchar in the message) is not in the definition; 2 rows were read without" in warning
    assert VerifyReport(messages=3).warnings() == ["3 messages, and no row"]
