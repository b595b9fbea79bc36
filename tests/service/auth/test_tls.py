"""TLS and client certificates over real sockets, and Confluent's client with passwords, tokens and certificates."""

import http.client
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError

from tests.support.access import ADMIN, TOKENS, basic, bearer, files, rule
from tests.support.certificates import Authority, Pair
from tests.support.service import Client, record, serve, until
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.server.http_server import Tls
from ticdc_bridge.service.testing import running_service


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


def get(
    url: str, path: str, authority: Authority, mine: Pair | None = None, authorization: str = ""
) -> tuple[int, bytes]:
    context = ssl.create_default_context(cafile=authority.file)
    if mine is not None:
        context.load_cert_chain(mine.certificate, mine.key)
    connection = http.client.HTTPSConnection(urlsplit(url).netloc, timeout=30, context=context)
    try:
        connection.request("GET", path, headers={"Authorization": authorization} if authorization else {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_tls_with_an_encrypted_key(authority: Authority) -> None:
    server = authority.issue("locked", password="open sesame")
    secret = {"tls_key_password": "open sesame"}
    with running_service(tls_cert=server.certificate, tls_key=server.key, **secret) as url:
        assert url.startswith("https://")
        assert get(url, "/", authority) == (200, b"{}")
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            Client(url.replace("https", "http")).get("/")
    with pytest.raises(SetupError) as raised:
        Tls(server.certificate, server.key, "wrong secret").context()
    assert "secret" not in raised.value.detail
    for wrong in (Tls("missing.pem"), Tls(server.key), Tls(server.certificate, authority.issue("other").key)):
        with pytest.raises(SetupError, match="TLS certificate"):
            wrong.context()


def test_a_client_certificate_is_a_name(authority: Authority, tmp_path: Path) -> None:
    """The CN, and where there is none the first DNS name; no certificate, or a stranger's, is no connection."""
    server, job = authority.issue("server"), authority.issue("job")
    nameless = authority.issue("nameless", common_name=False, sans=("job.example", "other.example"))
    stranger = Authority(tmp_path, "stranger").issue("job")
    rules = ADMIN + rule(["cert:job"], ["read"], prefixes=["a"]) + rule(["cert:job.example"], ["read"], prefixes=["b"])
    settings = files(tmp_path, rules)
    tls = {"tls_cert": server.certificate, "tls_key": server.key, "tls_client_ca": authority.file}
    with running_service(**settings, **tls) as url:
        for subject in ("a", "b"):
            with registry(url, authority, job, "root", TOKENS["root"]) as client:
                client.register_schema(subject, Schema(record("A"), "AVRO"))
        assert get(url, "/subjects", authority, job) == (200, b'["a"]')
        assert get(url, "/subjects", authority, nameless) == (200, b'["b"]')
        assert get(url, "/subjects", authority, job, bearer("root")) == (200, b'["a","b"]')
        assert get(url, "/subjects", authority, job, basic("job", "x"))[0] == 401
        for mine in (None, stranger):
            with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
                get(url, "/subjects", authority, mine)
    tls["tls_client_auth"] = "optional"
    with running_service(**settings, **tls) as url:
        assert get(url, "/subjects", authority)[0] == 401
        assert get(url, "/health/live", authority)[0] == 200
        assert get(url, "/subjects", authority, job) == (200, b"[]")


def registry(url: str, authority: Authority, mine: Pair, name: str, secret: str) -> SchemaRegistryClient:
    return SchemaRegistryClient({
        "url": url, "basic.auth.user.info": f"{name}:{secret}", "ssl.ca.location": authority.file,
        "ssl.certificate.location": mine.certificate, "ssl.key.location": mine.key,
    })  # fmt: skip


def test_a_renewed_certificate_is_used(authority: Authority) -> None:
    server = authority.issue("renewed")
    with running_service(tls_cert=server.certificate, tls_key=server.key) as url:
        before = serial(url)
        authority.issue("renewed")
        until(lambda: serial(url) != before)


def test_a_certificate_whose_key_is_not_there_yet(authority: Authority) -> None:
    """It comes first, and the files are looked at before the key comes: the old one is shown until then."""
    old, new = authority.issue("old"), authority.issue("new")
    tls = Tls(old.certificate, old.key)
    context = tls.context()
    before = shown(context)
    Path(old.certificate).write_bytes(Path(new.certificate).read_bytes())
    with pytest.raises(SetupError):
        tls.load(context)
    assert shown(context) == before
    Path(old.key).write_bytes(Path(new.key).read_bytes())
    tls.load(context)
    assert shown(context) != before


def test_an_authority_that_is_removed(authority: Authority, tmp_path: Path) -> None:
    """Its clients are refused from then on."""
    server, job, other = authority.issue("server"), authority.issue("job"), Authority(tmp_path, "other")
    authorities = tmp_path / "authorities.pem"
    authorities.write_bytes(Path(authority.file).read_bytes() + Path(other.file).read_bytes())
    tls = Tls(server.certificate, server.key, client_ca=str(authorities))
    context = tls.context()
    assert shown(context, job)
    authorities.write_bytes(Path(other.file).read_bytes())
    tls.load(context)
    assert shown(context, other.issue("another"))
    with pytest.raises(ssl.SSLError):
        shown(context, job)


def shown(server: ssl.SSLContext, mine: Pair | None = None) -> bytes | None:
    """The certificate that a client of this context gets. mine: its own."""
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
    if mine is not None:
        asking.load_cert_chain(mine.certificate, mine.key)
    existing, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(back, existing)
    ends = [client, server.wrap_bio(existing, back, server_side=True)]
    for _ in range(4):
        for end in ends:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return client.getpeercert(True)


def serial(url: str) -> str:
    host, port = urlsplit(url).hostname, urlsplit(url).port
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((host or "", port or 0), timeout=30) as plain,
        context.wrap_socket(plain) as wrapped,
    ):
        return ssl.DER_cert_to_PEM_cert(wrapped.getpeercert(True) or b"")


@pytest.mark.parametrize("way", ["user info", "url", "bearer"])
def test_confluents_client(tmp_path: Path, way: str) -> None:
    rules = ADMIN + rule(["ticdc"], ["write"], prefixes=["shop."])
    with running_service(**files(tmp_path, rules)) as url:
        config = {
            "user info": {"url": url, "basic.auth.user.info": f"ticdc:{TOKENS['ticdc']}"},
            "url": {"url": url.replace("://", f"://ticdc:{TOKENS['ticdc']}@")},
            "bearer": {
                "url": url,
                "bearer.auth.credentials.source": "STATIC_TOKEN",
                "bearer.auth.token": TOKENS["ticdc"],
                "bearer.auth.logical.cluster": "lsrc-1",
                "bearer.auth.identity.pool.id": "pool-1",
            },
        }[way]
        with SchemaRegistryClient(config) as client:
            assert client.register_schema("shop.a", Schema(record("A"), "AVRO")) == 1
            assert client.get_latest_version("shop.a").version == 1
            assert client.get_subjects() == ["shop.a"]
            with pytest.raises(SchemaRegistryError) as refused:
                client.register_schema("other", Schema(record("A"), "AVRO"))
        assert (refused.value.http_status_code, refused.value.error_code) == (403, 40301)
        with (
            SchemaRegistryClient({"url": url, "basic.auth.user.info": "ticdc:wrong"}) as stranger,
            pytest.raises(SchemaRegistryError) as unknown,
        ):
            stranger.get_subjects()
        assert (unknown.value.http_status_code, unknown.value.error_code) == (401, 401)


def test_what_serve_says(tmp_path: Path, authority: Authority) -> None:
    """Listening to everybody without protection is said loudly; the wrong settings are no start."""
    server = authority.issue("said")
    settings = files(tmp_path, ADMIN)
    tls = ("--tls-cert", server.certificate, "--tls-key", server.key)
    loud, unencrypted = "ANYBODY who can reach 0.0.0.0", "passwords and tokens are sent unencrypted"
    for arguments, warning in (
        (("--host", "0.0.0.0"), loud),
        (("--host", "0.0.0.0", *tls), loud),
        (("--host", "0.0.0.0", "--auth-file", settings["auth_file"]), unencrypted),
        (("--host", "0.0.0.0", "--auth-file", settings["auth_file"], *tls), None),
        ((), None),
    ):
        lines = started(tmp_path, "--port", "0", *arguments)
        assert any("listening on http" in line for line in lines)
        warned = [line for line in lines if "warning" in line]
        assert [str(warning) in line for line in warned] == ([True] if warning else []), (arguments, lines)
    assert started(tmp_path, "--acl-file", settings["acl_file"]) == [
        "ticdc-bridge: can't start: --acl-file needs --auth-file or --tls-client-ca: without them no user is known\n"
    ]


def started(folder: Path, *arguments: str) -> list[str]:
    """What `serve` says until it is ready, or until it ends."""
    process = serve(*arguments, cwd=folder)
    lines = []
    try:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line)
            if "listening on" in line:
                break
    finally:
        process.kill()
        process.communicate()
    return lines
