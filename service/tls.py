"""TLS as uvicorn serves it: the certificate, the key, and whose client certificates are asked for.

The files are looked at again when they change (`access.files`), so that a renewed certificate needs no restart.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any, Final

from schemas.errors import SetupError
from service.access.files import Files
from service.settings import Settings

REQUIRED: Final = "required"
OPTIONAL: Final = "optional"
_NAMES: Final = ("URI", "DNS", "email", "IP Address")


@dataclass(frozen=True, slots=True)
class Tls:
    """`key` "": the key is in the file of the certificate. `client_ca` "": no client certificates are asked for."""

    certificate: str
    key: str = ""
    password: str = ""
    client_ca: str = ""
    client_auth: str = REQUIRED

    def context(self) -> ssl.SSLContext:
        """TLS 1.2 and later. Raises SetupError for files that can't be used; the password is not in its text."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        if self.client_ca:
            context.verify_mode = ssl.CERT_OPTIONAL if self.client_auth == OPTIONAL else ssl.CERT_REQUIRED
        self._read(context)
        return context

    def load(self, context: ssl.SSLContext) -> None:
        """Read the files into a context; connections from then on use them. Raises SetupError, and leaves it as it was.

        A certificate authority that is no longer in the file is trusted until the next start: OpenSSL only adds.
        """
        # A certificate that came before its key: OpenSSL would take it, and shake no more hands until the key is there.
        self.context()
        self._read(context)

    def _read(self, context: ssl.SSLContext) -> None:
        what, path = "TLS certificate", self.certificate
        try:
            context.load_cert_chain(self.certificate, self.key or None, lambda: self.password)
            if self.client_ca:
                what, path = "TLS client CA", self.client_ca
                context.load_verify_locations(self.client_ca)
        except OSError as error:  # ssl.SSLError is one
            reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
            raise SetupError("USAGE", details=f"{what} {path} (key {self.key or 'in it'}): {reason}") from None


def name_in(certificate: dict[str, Any] | None) -> str | None:
    """The name in a client's certificate (as `SSLObject.getpeercert` gives it): its CN, else its first SAN."""
    if not certificate:
        return None
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == "commonName" and value:
                return str(value)
    named = dict(reversed(certificate.get("subjectAltName", ())))
    return next((str(named[kind]) for kind in _NAMES if named.get(kind)), None)


def watched_context(settings: Settings) -> tuple[ssl.SSLContext | None, Files]:
    """The TLS context of the settings (None: plain HTTP), and its files, still to be started. Raises SetupError."""
    files = Files()
    if not settings.tls_cert:
        return None, files
    password = settings.tls_key_password.get_secret_value()
    tls = Tls(settings.tls_cert, settings.tls_key, password, settings.tls_client_ca, settings.tls_client_auth)
    context = tls.context()
    for path in filter(None, (settings.tls_cert, settings.tls_key, settings.tls_client_ca)):
        files.watch(path, lambda _text: tls.load(context))
    return context, files
