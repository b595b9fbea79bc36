"""One properties file for two clients: what one of them calls otherwise, or does not know."""

from pathlib import Path

import pytest

from tests.support.each import each
from ticdc_bridge.schemas.inputs.kafka_settings import (
    client_settings,
    java_settings,
    settings_for_java,
    settings_for_librdkafka,
)
from ticdc_bridge.schemas.model.errors import SetupError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n"

Settings = dict[str, str]

# What both clients are told, in librdkafka's names and in the Java client's: each is what the other is translated to.
SAME: dict[str, tuple[Settings, Settings]] = {
    "as they are": (
        {"acks": "all", "linger.ms": "5", "client.id": "x"},
        {"acks": "all", "linger.ms": "5", "client.id": "x"},
    ),
    "sizes": (
        {"message.max.bytes": "2000000", "fetch.wait.max.ms": "7"},
        {"max.request.size": "2000000", "fetch.max.wait.ms": "7"},
    ),
    "password": (
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN",
         "sasl.username": "me", "sasl.password": 'a"b\\c d;'},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN",
         "sasl.jaas.config": f'{PLAIN} username="me" password="a\\"b\\\\c d;";'},
    ),
    "scram": (
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512",
         "sasl.username": "me", "sasl.password": "p"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512",
         "sasl.jaas.config": f'{SCRAM} username="me" password="p";'},
    ),
    "texts of PEM": (
        {"security.protocol": "SSL", "ssl.ca.pem": CERTIFICATE, "ssl.certificate.pem": CERTIFICATE, "ssl.key.pem": KEY},
        {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.certificates": CERTIFICATE,
         "ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": CERTIFICATE, "ssl.keystore.key": KEY},
    ),
    "names of hosts": (
        {"ssl.endpoint.identification.algorithm": "none"},
        {"ssl.endpoint.identification.algorithm": ""},
    ),
}  # fmt: skip


@each(("ours", "theirs"), SAME.values(), ids=SAME)
def test_each_client_by_the_names_of_the_other(ours: Settings, theirs: Settings) -> None:
    assert settings_for_java(ours) == settings_for_java(theirs) == theirs
    assert settings_for_librdkafka(theirs) == settings_for_librdkafka(ours) == ours


ONE_WAY: dict[str, tuple[Settings, Settings, Settings]] = {
    "names of old": ({"sasl.mechanisms": "PLAIN", "queue.buffering.max.ms": "3"},
                     {"sasl.mechanisms": "PLAIN", "queue.buffering.max.ms": "3"},
                     {"sasl.mechanism": "PLAIN", "linger.ms": "3"}),
    "of Java alone": ({"buffer.memory": "1", "max.block.ms": "2", "default.api.timeout.ms": "3"}, {},
                      {"buffer.memory": "1", "max.block.ms": "2", "default.api.timeout.ms": "3"}),
    "both dialects": ({"ssl.ca.location": "ca.pem", "ssl.truststore.location": "t.jks", "ssl.truststore.password": "p"},
                      {"ssl.ca.location": "ca.pem"},
                      {"ssl.truststore.location": "t.jks", "ssl.truststore.password": "p"}),
    "a file of PEM": ({"ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem",
                       "ssl.keystore.type": "PEM", "ssl.keystore.location": "both.pem"},
                      {"ssl.ca.location": "ca.pem", "ssl.certificate.location": "both.pem",
                       "ssl.key.location": "both.pem"},
                      {"ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem",
                       "ssl.keystore.type": "PEM", "ssl.keystore.location": "both.pem"}),
    "PKCS#12": ({"ssl.keystore.location": "me.p12", "ssl.keystore.password": "p"},
                {"ssl.keystore.location": "me.p12", "ssl.keystore.password": "p"},
                {"ssl.keystore.location": "me.p12", "ssl.keystore.password": "p"}),
}  # fmt: skip


@each(("given", "ours", "theirs"), ONE_WAY.values(), ids=ONE_WAY)
def test_settings_of_one_client_alone(given: Settings, ours: Settings, theirs: Settings) -> None:
    assert settings_for_librdkafka(given) == ours
    assert settings_for_java(given) == theirs


def test_a_file_serves_both(tmp_path: Path) -> None:
    """Certificates are told to Spark by their text: an executor elsewhere has no such files."""
    (tmp_path / "ca.pem").write_text(CERTIFICATE)
    file = tmp_path / "client.properties"
    reported = ["# of ours", "", "security.protocol = ssl", f"ssl.ca.location={tmp_path / 'ca.pem'}"]
    file.write_text("\n".join(reported))
    assert client_settings("a:1", file) == {
        "bootstrap.servers": "a:1", "security.protocol": "ssl", "ssl.ca.location": str(tmp_path / "ca.pem")
    }  # fmt: skip
    assert java_settings("a:1", file) == {
        "bootstrap.servers": "a:1", "security.protocol": "SSL", "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CERTIFICATE,
    }  # fmt: skip


REFUSED_BY_JAVA = {
    "a PKCS#1 key": ({"ssl.certificate.pem": CERTIFICATE, "ssl.key.pem": "-----BEGIN RSA PRIVATE KEY-----"}, "PKCS#8"),
    "no file": ({"ssl.ca.location": "/nowhere/ca.pem"}, "ssl.ca.location=/nowhere/ca.pem: No such file"),
    "no verification": ({"enable.ssl.certificate.verification": "false"}, "always verifies"),
}
REFUSED_BY_LIBRDKAFKA = {
    "a keystore of Java's": ({"ssl.truststore.location": "t.jks"}, "give ssl.ca.location=FILE.pem beside it"),
    "another login": ({"sasl.jaas.config": "com.example.Login required a=b;"}, "com.example.Login has no equal"),
}


@each(("given", "words"), REFUSED_BY_JAVA.values(), ids=REFUSED_BY_JAVA)
def test_refused_for_java(given: Settings, words: str) -> None:
    with pytest.raises(SetupError, match=words):
        settings_for_java(given)


@each(("given", "words"), REFUSED_BY_LIBRDKAFKA.values(), ids=REFUSED_BY_LIBRDKAFKA)
def test_refused_for_librdkafka(given: Settings, words: str) -> None:
    with pytest.raises(SetupError, match=words):
        settings_for_librdkafka(given)
