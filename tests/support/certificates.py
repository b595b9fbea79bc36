"""Certificates for tests, made anew each time: an authority, a server's, clients'."""

import datetime
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class Pair:
    """PEM files of a certificate and its key."""

    certificate: str
    key: str


class Authority:
    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        made = _builder(self._name, self._name, self._key).add_extension(x509.BasicConstraints(True, None), True)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        self._certificate = made.add_extension(usage, True).sign(self._key, hashes.SHA256())
        self.file = str(folder / f"{name}.pem")
        Path(self.file).write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, *, common_name: bool = True, sans: tuple[str, ...] = (), password: str = "") -> Pair:
        """A certificate for 127.0.0.1 and the DNS names `sans`, with `name` as its CN if it is to have one."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(name) if common_name else x509.Name([])
        named = [x509.IPAddress(ip_address("127.0.0.1")), *map(x509.DNSName, sans)]
        signed = (
            _builder(subject, self._name, key)
            .add_extension(x509.SubjectAlternativeName(named), not common_name)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False)
            .sign(self._key, hashes.SHA256())
        )
        files = Pair(str(self._folder / f"{name}.pem"), str(self._folder / f"{name}.key"))
        Path(files.certificate).write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        locked = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        Path(files.key).write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
        )
        return files


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: Key) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    )
