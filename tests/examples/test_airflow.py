"""The example for Airflow: its commands are ours; Airflow reads it, where it is installed."""

import runpy
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.command_line import parse_job
from tests.support.service import ROOT
from tests.support.table import check_rows

DAG_FILE = ROOT / "examples" / "airflow" / "ticdc_bridge_tables.py"
_IMPORTS = {
    "airflow.sdk": "DAG",
    "airflow.providers.standard.operators.bash": "BashOperator",
    "airflow.providers.apache.spark.operators.spark_submit": "SparkSubmitOperator",
}


class _Task:
    """Takes what a DAG or an operator of Airflow's takes, and keeps it."""

    made: list[dict[str, Any]]

    def __init__(self, *names: str, **arguments: Any) -> None:
        self.made.append(arguments)

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def __rshift__(self, other: object) -> None: ...


def test_its_commands_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []
    task = type("Task", (_Task,), {"made": made})
    for module, name in _IMPORTS.items():
        stand_in = ModuleType(module)
        setattr(stand_in, name, task)
        monkeypatch.setitem(sys.modules, module, stand_in)
    runpy.run_path(str(DAG_FILE))
    bash = [shlex.split(entry["bash_command"]) for entry in made if "bash_command" in entry]
    assert {words.pop(0) for words in bash} == {"ticdc-bridge"}
    submitted = [entry["application_args"] for entry in made if "application_args" in entry]
    time = "2026-11-20T08:00:00Z"  # in place of what Airflow fills in
    rows = [[time if word.startswith("{{") else word for word in words] for words in (*submitted, *bash)]
    assert [words[0] for words in rows] == ["merge", "decode", "replay"]
    check_rows(rows, parse_job, lambda words: words[0])


@pytest.mark.slow
def test_airflow_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("airflow") is None:
        pytest.skip("apache-airflow is not installed")
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(DAG_FILE.parent))
    assert bag.import_errors == {}
    assert {name: [task.task_id for task in dag.tasks] for name, dag in bag.dags.items()} == {
        "ticdc_bridge_tables": ["merge_tables", "decode_changes"],
        "ticdc_bridge_replay": ["replay_dead_letters"],
    }
