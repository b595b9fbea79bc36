"""Checks that the service on this machine is ready, as containers' health checks do: often, so without the app."""

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from ticdc_bridge.schemas.model.credentials import mask_url

READY: Final = 0
NOT_READY: Final = 1
USAGE: Final = 2
_SECONDS: Final = 4.0
_LONGEST: Final = 64 * 1024
# What a service listens on → where it is reached on its own machine.
_LOOPBACK: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a service. certificate: its own PEM file, if it has one; key: its key's, "" where that is in it.

    The certificate is not checked: it is for the name that clients use, and nobody stands between on one machine.
    """

    host: str
    port: int
    is_tls: bool = False
    certificate: str = ""
    key: str = ""
    password: str = ""


def address_of(environment: Mapping[str, str]) -> Address:
    """The address by BRIDGE_HOST, BRIDGE_PORT, BRIDGE_TLS_CERT, …. Raises ValueError for a port that is no number."""
    host, port = environment.get("BRIDGE_HOST"), environment.get("BRIDGE_PORT")
    certificate = environment.get("BRIDGE_TLS_CERT", "")
    if host is None or port is None:  # a default, or another registry's variable
        from ticdc_bridge.service.server.settings import Settings

        settings = Settings()
        host, port, certificate = settings.host, str(settings.port), settings.tls_cert
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError(f"BRIDGE_PORT is {port!r}: 1 to 65535 is needed, or --url")
    return Address(
        _LOOPBACK.get(host, host), int(port), bool(certificate), certificate,
        environment.get("BRIDGE_TLS_KEY", ""), environment.get("BRIDGE_TLS_KEY_PASSWORD", ""),
    )  # fmt: skip


def address_of_url(url: str) -> Address:
    """Raises ValueError for what is no http://HOST:PORT or https://HOST:PORT."""
    split_url = urlsplit(url)
    if split_url.scheme not in ("http", "https") or not split_url.hostname:
        raise ValueError(f"--url {mask_url(url)}: http://HOST:PORT or https://HOST:PORT is needed")
    is_tls = split_url.scheme == "https"
    return Address(split_url.hostname, split_url.port or (443 if is_tls else 80), is_tls)


def check_health(address: Address) -> tuple[int, str]:
    """READY or NOT_READY, and a sentence: what `/health/ready` answered, or why nothing did, within four seconds."""
    where = f"{'https' if address.is_tls else 'http'}://{address.host}:{address.port}/health/ready"
    try:
        status, body = _ask(address)
    except OSError as error:  # of TLS and of time too
        reason = str(getattr(error, "reason", None) or error.strerror or "the connection was closed")
        reason = f"no answer in {_SECONDS:g} s" if isinstance(error, TimeoutError) else reason
        return NOT_READY, f"not ready: {where}: {reason}"
    if status == "200":
        return READY, f"ready: {where}"
    if not status:
        maybe = ": it may want a client certificate, so check the port alone" if address.is_tls else ""
        return NOT_READY, f"not ready: {where} closed the connection without an answer in HTTP{maybe}"
    return NOT_READY, f"not ready: {where} answered {status}: {body.strip()[:500]}"


def _ask(address: Address) -> tuple[str, str]:
    """The status and the body. Raises OSError."""
    with socket.create_connection((address.host, address.port), _SECONDS) as plain:
        connection: socket.socket = plain
        if address.is_tls:
            import ssl

            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            if address.certificate:
                context.load_cert_chain(address.certificate, address.key or None, lambda: address.password)
            connection = context.wrap_socket(plain)
        host = f"[{address.host}]" if ":" in address.host else address.host
        connection.sendall(f"GET /health/ready HTTP/1.0\r\nHost: {host}\r\n\r\n".encode("ascii", "replace"))
        answer = b""
        while len(answer) < _LONGEST and (chunk := connection.recv(_LONGEST)):
            answer += chunk
        if address.is_tls:
            connection.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.decode("latin-1").split(" ", 2)
    return (words[1] if len(words) > 1 and words[0].startswith("HTTP/") else ""), body.decode("utf-8", "replace")


def run(url: str | None) -> int:
    """Print what is so on stderr, or on stdout where the service is ready. Out: the exit code."""
    try:
        address = address_of_url(url) if url is not None else address_of(os.environ)
    except ValueError as error:
        from ticdc_bridge.schemas.model.reasons import reason_of

        print(f"ticdc-bridge: {reason_of(error)}", file=sys.stderr)
        return USAGE
    code, text = check_health(address)
    print(text, file=sys.stdout if code == READY else sys.stderr)
    return code
