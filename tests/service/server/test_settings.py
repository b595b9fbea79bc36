"""Where settings come from, and which wins."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.each import each
from ticdc_bridge.service.server.settings import Settings, aliases_used


@contextmanager
def environment(variables: dict[str, str]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@each(("environ", "explicit", "expected"), [
    ({}, {}, {"host": "127.0.0.1", "port": 8081, "profile": 8, "compatibility": "BACKWARD"}),
    ({"BRIDGE_PORT": "9", "BRIDGE_PROFILE": "7"}, {}, {"port": 9, "profile": 7}),
    ({"BRIDGE_PORT": "9"}, {"port": 10}, {"port": 10}),
    ({"SCHEMA_REGISTRY_LISTENERS": "https://x:1,http://0.0.0.0:8085"}, {}, {"host": "0.0.0.0", "port": 8085}),
    ({"SCHEMA_REGISTRY_LISTENERS": "http://0.0.0.0:8085", "BRIDGE_PORT": "9"}, {}, {"host": "0.0.0.0", "port": 9}),
    ({"SCHEMA_REGISTRY_LISTENERS": "http://a:1"}, {"host": "b"}, {"host": "b", "port": 1}),
    (
        {"SCHEMA_REGISTRY_SCHEMA_COMPATIBILITY_LEVEL": "none", "SCHEMA_REGISTRY_AVRO_COMPATIBILITY_LEVEL": "full"}, {},
        {"compatibility": "FULL"},
    ),
    ({"SCHEMA_REGISTRY_MODE_MUTABILITY": "false"}, {}, {"mode_mutability": False}),
    ({"SCHEMA_REGISTRY_SCHEMA_COMPATIBILITY_LEVEL": "full"}, {}, {"compatibility": "FULL"}),
    ({"KARAPACE_HOST": "h", "KARAPACE_PORT": "7", "KARAPACE_COMPATIBILITY": "NONE"}, {}, {"host": "h", "port": 7}),
    ({"BRIDGE_LOG_LEVEL": "DEBUG"}, {}, {"log_level": "debug"}),
])  # fmt: skip
def test_sources(environ: dict[str, str], explicit: dict[str, Any], expected: dict[str, Any]) -> None:
    with environment(environ):
        settings = Settings(**explicit)
    assert {name: getattr(settings, name) for name in expected} == expected


@each("row", [
    ("BRIDGE_PORT", "x"), ("BRIDGE_PORT", "-1"), ("BRIDGE_PROFILE", "9"), ("BRIDGE_COMPATIBILITY", "SOMETIMES"),
    ("BRIDGE_MAX_BODY_BYTES", "1"), ("SCHEMA_REGISTRY_LISTENERS", "ftp://only:1"), ("KARAPACE_PORT", "x"),
])  # fmt: skip
def test_values_that_are_refused(row: tuple[str, str]) -> None:
    with environment(dict([row])), pytest.raises((ValidationError, ValueError)):
        Settings()


@each("environ", [
    {"BRIDGE_ACL_FILE": "acl.toml"}, {"BRIDGE_TLS_KEY": "key.pem"}, {"BRIDGE_TLS_CLIENT_CA": "ca.pem"},
    {"BRIDGE_TLS_CLIENT_AUTH": "Optional", "BRIDGE_TLS_CLIENT_CA": "ca.pem", "BRIDGE_TLS_CERT": "cert.pem"},
    {"SCHEMA_REGISTRY_LISTENERS": "https://only:1"}, {"SCHEMA_REGISTRY_AUTHENTICATION_METHOD": "BASIC"},
    {"KARAPACE_REGISTRY_AUTHFILE": "users.json"},
])  # fmt: skip
def test_settings_that_would_protect_less_than_they_seem_to(environ: dict[str, str]) -> None:
    with environment(environ), pytest.raises(ValueError, match=r"needs? --(auth-file|tls-cert)"):
        Settings().check_access()


def test_names_of_others_for_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARAPACE_SERVER_TLS_CERTFILE", "c")
    monkeypatch.setenv("KARAPACE_SERVER_TLS_KEYFILE", "k")
    monkeypatch.setenv("KARAPACE_SERVER_TLS_CAFILE", "a")
    monkeypatch.setenv("BRIDGE_TLS_KEY_PASSWORD", "secret")
    settings = Settings()
    settings.check_access()
    assert (settings.tls_cert, settings.tls_key, settings.tls_client_ca) == ("c", "k", "a")
    assert "secret" not in repr(settings)


def test_which_alias_decided() -> None:
    environ = {
        "KARAPACE_HOST": "h", "KARAPACE_PORT": "1", "SCHEMA_REGISTRY_LISTENERS": "http://a:2", "BRIDGE_HOST": "b",
    }  # fmt: skip
    assert aliases_used(environ, {}) == ["SCHEMA_REGISTRY_LISTENERS sets port"]
    assert aliases_used(environ, {"port": 3}) == []
    assert aliases_used({}, {}) == []
    without = {
        "SCHEMA_REGISTRY_HOST_NAME": "h",
        "SCHEMA_REGISTRY_DEBUG": "",
        "KARAPACE_TOPIC_NAME": "_schemas",
        "X": "y",
    }
    assert aliases_used(without | {"SCHEMA_REGISTRY_MODE_MUTABILITY": "false"}, {}) == [
        "KARAPACE_TOPIC_NAME has no effect here",
        "SCHEMA_REGISTRY_HOST_NAME has no effect here",
        "SCHEMA_REGISTRY_MODE_MUTABILITY sets mode_mutability",
    ]
