"""`health`: what a container asks its service, with an exit code for an answer."""

import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from tests.support.access import files
from tests.support.certificates import Authority
from tests.support.each import each
from tests.support.service import ROOT
from tests.support.table import check_rows
from ticdc_bridge.cli.app import app
from ticdc_bridge.service.server.health import NOT_READY, READY, Address, address_of, address_of_url, check_health
from ticdc_bridge.service.testing import running_service

_ALL = {"BRIDGE_HOST": "0.0.0.0", "BRIDGE_PORT": "8081"}
PLACES: list[tuple[Mapping[str, str], Address]] = [
    (_ALL, Address("127.0.0.1", 8081)),
    ({**_ALL, "BRIDGE_HOST": "::"}, Address("::1", 8081)),
    ({**_ALL, "BRIDGE_HOST": ""}, Address("127.0.0.1", 8081)),
    ({**_ALL, "BRIDGE_HOST": "10.0.0.7", "BRIDGE_PORT": "9000"}, Address("10.0.0.7", 9000)),
    ({**_ALL, "BRIDGE_TLS_CERT": "c.pem"}, Address("127.0.0.1", 8081, True, "c.pem")),
    (
        {**_ALL, "BRIDGE_TLS_CERT": "c.pem", "BRIDGE_TLS_KEY": "k.pem", "BRIDGE_TLS_KEY_PASSWORD": "x"},
        Address("127.0.0.1", 8081, True, "c.pem", "k.pem", "x"),
    ),
    ({}, Address("127.0.0.1", 8081)),
    ({"KARAPACE_PORT": "8085", "KARAPACE_HOST": "0.0.0.0"}, Address("127.0.0.1", 8085)),
    ({"SCHEMA_REGISTRY_LISTENERS": "http://0.0.0.0:8090", "BRIDGE_HOST": "127.0.0.1"}, Address("127.0.0.1", 8090)),
]
URLS = [
    ("http://127.0.0.1:9000", Address("127.0.0.1", 9000)),
    ("https://[::1]:9000/", Address("::1", 9000, True)),
    ("https://registry", Address("registry", 443, True)),
]
WRONG = [("8081", "--url"), ("ftp://x", "--url"), ("http://", "--url"), ("http://x:99999", "ort")]


@each(("variables", "place"), PLACES)
def test_where_the_service_is_asked(
    monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str], place: Address
) -> None:
    with monkeypatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        assert address_of(variables) == place


def test_where_a_url_leads() -> None:
    assert [address_of_url(url) for url, _ in URLS] == [place for _, place in URLS]
    with pytest.raises(ValueError, match="BRIDGE_PORT is '80a'"):
        address_of({**_ALL, "BRIDGE_PORT": "80a"})


def test_exit_codes() -> None:
    with running_service() as url:
        result = CliRunner().invoke(app, ["health", "--url", url])
        assert (result.exit_code, result.output) == (0, f"ready: {url}/health/ready\n")
    result = CliRunner().invoke(app, ["health", "--url", url])
    assert result.exit_code == 1
    assert "Connection refused" in result.output

    def check(row: tuple[str, str]) -> None:
        result = CliRunner().invoke(app, ["health", "--url", row[0]])
        assert result.exit_code == 2
        assert row[1] in result.output

    check_rows(WRONG, check)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    (tmp_path / "ca").mkdir()
    return Authority(tmp_path / "ca")


def test_tls_passwords_and_client_certificates(authority: Authority, tmp_path: Path) -> None:
    """Users are not asked for. The service's own certificate stands for a client's where one is needed."""
    server = authority.issue("server")
    other = Authority(tmp_path, "other")
    tls = {"tls_cert": server.certificate, "tls_key": server.key}

    def rows() -> Iterator[tuple[dict[str, str], bool]]:
        yield {**files(tmp_path), **tls}, True
        yield {**files(tmp_path), **tls, "tls_client_ca": authority.file}, True
        yield {**files(tmp_path), **tls, "tls_client_ca": other.file}, False

    def check(row: tuple[dict[str, str], bool]) -> None:
        with running_service(**row[0]) as url:
            split_url = urlsplit(url)
            place = Address(str(split_url.hostname), split_url.port or 0, True, server.certificate, server.key)
            code, text = check_health(place)
            assert (code == READY) == row[1], text
            assert row[1] or "certificate" in text

    check_rows(rows(), check, lambda row: "client CA" if "tls_client_ca" in row[0] else "TLS")


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-x\r\n", b'HTTP/1.1 500 No\r\n\r\n{"message":"the store"}'])
def test_what_is_no_good_answer(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        place = Address(*listening.getsockname()[:2])
        call = f"check_health(Address{(place.host, place.port)})"
        ask = f"from ticdc_bridge.service.server.health import *; print({call}[0])"
        with subprocess.Popen([sys.executable, "-c", ask], cwd=ROOT, stdout=subprocess.PIPE, text=True) as asking:
            client, _ = listening.accept()
            with client:
                client.recv(1000)
                client.sendall(answer)
            assert asking.communicate()[0] == f"{NOT_READY}\n"


def test_it_imports_nothing_of_the_service() -> None:
    """It runs every ten seconds in each container."""
    code = (
        "import sys, runpy; sys.argv = ['service', 'health']\n"
        "try: runpy.run_module('service', run_name='__main__')\n"
        "except SystemExit as end: print(end.code, {'typer', 'pydantic', 'ssl', 'http'} & {*sys.modules})\n"
    )
    environment = {"BRIDGE_HOST": "127.0.0.1", "BRIDGE_PORT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1 set()\n", done.stderr
