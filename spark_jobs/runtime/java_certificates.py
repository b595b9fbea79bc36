"""Let a Java trust the certificate authorities that the machine trusts: its bundle as a key store (JKS)."""

import hashlib
import os
import ssl
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PASSWORD = "changeit"  # Java's customary one; a trust store holds nothing secret

_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_MAGIC, _VERSION, _TRUSTED_CERTIFICATE = 0xFEEDFEED, 2, 2


def system_certificates() -> list[bytes]:
    """The authorities (DER) of Python's default bundle, the system's, and those that the usual variables name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    names = [ssl.get_default_verify_paths().cafile, *(os.environ.get(name) for name in _VARIABLES), *_BUNDLES]
    for path in dict.fromkeys(filter(None, names)):
        with suppress(OSError):  # ssl's errors are among them
            context.load_verify_locations(cafile=path)
    return context.get_ca_certs(binary_form=True)


def trust_store(certificates: Iterable[bytes]) -> bytes:
    """The bytes of a JKS trust store with these certificates (DER) and the password `PASSWORD`."""
    entries = [
        struct.pack(">I", _TRUSTED_CERTIFICATE)
        + _text(f"ca{number}")
        + struct.pack(">Q", 0)
        + _text("X.509")
        + struct.pack(">I", len(certificate))
        + certificate
        for number, certificate in enumerate(certificates)
    ]
    body = struct.pack(">III", _MAGIC, _VERSION, len(entries)) + b"".join(entries)
    return body + hashlib.sha1(PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def java_options(folder: Path) -> list[str]:
    """Options that make a Java trust what the machine trusts; [] for nothing. folder: gets the store."""
    certificates = system_certificates()
    if not certificates:
        return []
    path = folder / "trust.jks"
    path.write_bytes(trust_store(certificates))
    return [f"-Djavax.net.ssl.trustStore={path}", f"-Djavax.net.ssl.trustStorePassword={PASSWORD}"]


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">H", len(raw)) + raw
