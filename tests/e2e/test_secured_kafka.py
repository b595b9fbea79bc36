"""A broker that wants TLS, a client certificate and a password: one properties file serves all clients, in either's
names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.certificates import Authority
from tests.support.changes import Changes, change_of
from tests.support.kafka import Kafka
from tests.support.streams import lines, received, send
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.inputs.kafka_settings import settings_for_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USER, SECRET = "job", 'p"a\\ss, word;'
_BROKER = """\
listener.security.protocol.map=BROKER:SASL_SSL,CONTROLLER:PLAINTEXT
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.broker.sasl.enabled.mechanisms=PLAIN
listener.name.broker.plain.sasl.jaas.config={login}
listener.name.broker.ssl.client.auth=required
ssl.keystore.type=PEM
ssl.keystore.location={both}
ssl.truststore.type=PEM
ssl.truststore.location={ca}
"""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder)
    server, mine = authority.issue("server"), authority.issue("client")
    both = folder / "both.pem"
    both.write_text(Path(server.key).read_text() + Path(server.certificate).read_text())
    quoted = SECRET.replace("\\", "\\\\").replace('"', '\\"')
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    login = f'{module} username="{USER}" password="{quoted}" user_{USER}="{quoted}";'.replace("\\", "\\\\")
    client = {
        "security.protocol": "sasl_ssl", "sasl.mechanisms": "PLAIN", "sasl.username": USER, "sasl.password": SECRET,
        "ssl.ca.location": authority.file, "ssl.certificate.location": mine.certificate, "ssl.key.location": mine.key,
    }  # fmt: skip
    with Kafka(_BROKER.format(login=login, both=both, ca=authority.file), client) as broker:
        yield broker


@pytest.mark.slow
@pytest.mark.parametrize("names", ["librdkafka", "java"])
def test_every_way_to_read_and_write(
    secured: Kafka, names: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    changes = Changes()
    source, target = secured.create_topic(partitions=2), secured.create_topic(partitions=2)
    send(secured, source, changes.lot(20))
    given = secured.client if names == "librdkafka" else settings_for_java(secured.client)
    reported = "".join(f"{name}={value.replace(chr(10), chr(92) + 'n')}\n" for name, value in given.items())
    Path("client.properties").write_text(reported)
    common = ["--ddl", str(changes.ddl(Path("ddl.jsonl"))), "--bootstrap-servers", secured.bootstrap_servers]
    common += ["--kafka-config", "client.properties", "--in", f"kafka:{source}"]
    decode = ["decode", "--format", "open", *common]
    assert main([*decode, "--out", "a.jsonl"]) == 0
    assert main([*decode, "--spark", "--out", "b.jsonl"]) == 0
    assert Path("a.jsonl").read_bytes() == Path("b.jsonl").read_bytes()
    stream = ["--stream", "--trigger", "now", "--checkpoint"]
    assert main([*decode, "--out", "rows", *stream, "c1"]) == 0
    assert Counter(change_of(x) for x in lines("rows") if x["kind"] == "row") == Counter(changes.made)
    transcode = ["transcode", "--from", "open", "--to", "debezium", "--time-zone", "UTC", *common]
    assert main([*transcode, "--out", f"kafka:{target}", *stream, "c2"]) == 0
    assert len(received(secured, target)) == len(changes.made)
