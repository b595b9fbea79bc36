"""The example in Spark's own Kubernetes mode: the real driver asks for executors, and its template starts them here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support import shop
from tests.support.kafka import Kafka
from tests.support.pods_as_processes import Pods, serve_pods
from tests.support.service import ROOT
from tests.support.streams import received, send
from ticdc_bridge.service.testing import running_service
from ticdc_bridge.spark_jobs.runtime.java import spark_java_home

MANIFEST = ROOT / "examples" / "kubernetes" / "transcode-executors.yaml"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_driver_and_executor(kafka: Kafka, tmp_path: Path) -> None:
    made = {entry["kind"]: entry for entry in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8"))}
    for name, text in made["ConfigMap"]["data"].items():
        (tmp_path / name).write_text(text)
    image = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    image |= {"PYTHONPATH": str(ROOT), "BRIDGE_JAVA_HOME": str(spark_java_home()),
              "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}  # fmt: skip
    pods = Pods(tmp_path, {"/etc/ticdc-bridge/executor.sh": str(tmp_path / "executor.sh")}, image)
    driver = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "transcode-0"}, "spec": {"containers": []}}
    pods.add(driver, start=False)
    source, target = (kafka.create_topic(partitions=2) for _ in range(2))
    with running_service() as registry, serve_pods(pods) as api:
        shop.register(registry)
        orders = [message for message in shop.messages() if message.topic == "tidb_shop_orders"]
        send(kafka, source, orders)
        positions = {
            "$(BRIDGE_REGISTRY)": registry, "kafka.kafka.svc:9092": kafka.bootstrap_servers,
            "kafka:tidb_shop_orders_debezium": f"kafka:{target}", "kafka:tidb_shop_orders": f"kafka:{source}",
            "kafka:tidb_dead": f"kafka:{kafka.topic_name()}", "/var/lib/ticdc-bridge": str(tmp_path),
            "https://kubernetes.default.svc": api, "/etc/ticdc-bridge": str(tmp_path), "--trigger=10s": "--trigger=now",
            "--time-zone=UTC": f"--time-zone={shop.ZONE}", "instances=2": "instances=1", ":9400": f"{tmp_path}/metrics",
            "$(POD_NAMESPACE)": "ticdc-bridge", "$(POD_NAME)": "transcode-0", "$(POD_IP)": "127.0.0.1",
        }  # fmt: skip
        words = made["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]["args"]
        words = [placed(word, positions) for word in words if not word.startswith("--metrics-host")]
        done = subprocess.run(
            [sys.executable, "-m", "ticdc_bridge", *words], cwd=tmp_path, env=image, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stderr[-3000:]}\n{pods.logs}"
    assert len(received(kafka, target)) == len(orders)
    assert ("POST", "pods") in pods.asked
    rules = made["Role"]["rules"][0]
    verbs = {"GET": "list", "POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "deletecollection"}
    asked = {(verbs[method], kind) for method, kind in pods.asked}
    assert asked <= {(verb, kind) for verb in rules["verbs"] for kind in rules["resources"]}


def placed(word: str, positions: dict[str, str]) -> str:
    """A word of the manifest with what stands for its places here."""
    for old, new in positions.items():
        word = word.replace(old, new)
    return word
