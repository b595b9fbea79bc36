"""Where a request ends: no byte of a body, and none behind a refused head, is a request of its own.

On raw sockets against the real server. Each row sends a POST or the like whose body, or what comes behind it, has the
text of a DELETE. The forms are those of llhttp's and h11's test suites. Rules: RFC 9112, 3.2 (Host), 6 and 11.2; RFC
9110, 7.8 (an offered upgrade may be ignored) and 9.3.6 (CONNECT).
"""

import logging
import re
import socket
from collections.abc import Iterator, Sequence
from itertools import product

import pytest

from tests.service.server.test_http_server import everything, raw
from tests.support.each import each
from tests.support.service import Client, record
from tests.support.table import check_rows
from ticdc_bridge.service.testing import running_service

HOST = b"Host: x\r\n"
OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk\r\n"
WEBSOCKET = b"Upgrade: websocket\r\nConnection: keep-alive, UPGRADE\r\nSec-WebSocket-Key: eA==\r\n"
JSON = b"Content-Type: application/json\r\n"
DELETE = b"DELETE /subjects/kept HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /schemas/types HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
NEW = b'{"schema":"\\"string\\""}'
PATH = b"/subjects/kept"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_service() as running:
        assert Client(running).register("kept", record("A")).status == 200
        yield running


def statuses(url: str, pieces: Sequence[bytes]) -> list[int]:
    """The statuses of all answers on one connection. pieces: each sent alone; after `Expect`, when a 100 has come."""
    with raw(url) as opened:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for piece in pieces:
                opened.sendall(piece)
                if piece.endswith(b"100-continue\r\n\r\n"):
                    assert opened.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        except ConnectionError:
            pass
        answer = everything(opened)
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


def request(method: bytes, path: bytes, *headers: bytes, version: bytes = b"1.1") -> bytes:
    return b"%b %b HTTP/%b\r\n" % (method, path, version) + HOST + b"".join(headers) + b"\r\n"


def length(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n" % len(body)


def chunked(*chunks: bytes, trailers: bytes = b"") -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n" + trailers + b"\r\n"


CHUNKED = b"Transfer-Encoding: chunked\r\n"
METHODS = (b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"TRACE")


def offered(method: bytes, offer: bytes, body: bytes, version: bytes) -> list[bytes]:
    """A request that offers an upgrade, whose body comes in packets of its own."""
    head = request(method, b"/none", offer, JSON, length(body), version=version)
    return [head, body[:10], body[10:], LAST]


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_an_offered_upgrade_is_ignored(url: str, version: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """For every method; the body is the request's, whatever packets it comes in, and nothing is logged."""

    def check(row: tuple[bytes, bytes]) -> None:
        method, offer = row
        plain = statuses(url, offered(method, b"", DELETE, version))
        assert len(plain) == (2 if version == b"1.1" else 1)
        for pieces in (offered(method, offer, DELETE, version), [b"".join(offered(method, offer, DELETE, version))]):
            assert statuses(url, pieces) == plain

    with caplog.at_level(logging.WARNING):
        check_rows(list(product(METHODS, (OFFER, WEBSOCKET))), check)
        assert Client(url).get(PATH.decode() + "/versions").json == [1]
    assert not caplog.records


READ: dict[str, list[bytes]] = {
    "in one packet": [request(b"POST", b"/subjects/a/versions", OFFER, length(NEW)) + NEW + LAST],
    "in pieces": [request(b"POST", b"/subjects/a/versions", OFFER, length(NEW)), NEW[:5], NEW[5:] + LAST],
    "head in pieces": [
        *(bytes([byte]) for byte in request(b"POST", b"/subjects/a/versions", OFFER, length(NEW))), NEW, LAST
    ],
    "chunked": [request(b"POST", b"/subjects/a/versions", OFFER, CHUNKED), chunked(NEW[:3], NEW[3:]), LAST],
    "expecting": [
        request(b"POST", b"/subjects/a/versions", OFFER, length(NEW), b"Expect: 100-continue\r\n"), NEW, LAST
    ],
    "expecting without an offer": [
        request(b"POST", b"/subjects/a/versions", length(NEW), b"Expect: 100-continue\r\n"), NEW, LAST
    ],
    "a GET and the next": [request(b"GET", b"/subjects/kept/versions", OFFER), LAST],
    "a kept GET": [request(b"GET", b"/schemas/types", OFFER) + LAST],
    "behind another": [
        request(b"GET", b"/subjects/kept/versions", length(DELETE)) + DELETE
        + request(b"POST", b"/subjects/a", OFFER, length(NEW)) + NEW + LAST
    ],
    "trailers": [
        request(b"POST", b"/subjects/a/versions", CHUNKED),
        chunked(NEW, trailers=b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Type: text/plain\r\n") + LAST,
    ],
    "trailers in the same packet": [
        request(b"POST", b"/subjects/b/versions", CHUNKED)
        + chunked(NEW, trailers=b"Content-Type: text/plain\r\nAccept: text/plain\r\n") + LAST
    ],
    "chunk extensions": [
        request(b"POST", b"/subjects/a/versions", CHUNKED), b"%x;a=b\r\n" % len(NEW) + NEW + b"\r\n0;a\r\n\r\n", LAST
    ],
    **{
        f"a length written as {value.decode()!r}": [request(b"POST", b"/subjects/a/versions", line) + NEW + LAST]
        for value in (b" 000%d", b"\t%d", b"%d \t") for line in (b"Content-Length:" + value % len(NEW) + b"\r\n",)
    },
    "a chunk size with zeros": [
        request(b"POST", b"/subjects/a/versions", CHUNKED) + b"0" * 20 + chunked(NEW) + LAST
    ],
    "chunked in other letters": [
        request(b"POST", b"/subjects/a/versions", b"transfer-ENCODING: ChUnKeD\r\n") + chunked(NEW) + LAST
    ],
    "names that look like them": [
        request(b"POST", b"/subjects/a/versions", b"Content_Length: 3\r\nTransfer_Encoding: chunked\r\n", length(NEW))
        + NEW + LAST
    ],
    "a length that Connection names": [
        request(b"POST", b"/subjects/a/versions", b"Connection: Content-Length\r\n", length(NEW)) + NEW + LAST
    ],
    "another expectation": [
        request(b"POST", b"/subjects/a/versions", b"Expect: 200-ok\r\n", length(NEW)) + NEW + LAST
    ],
    "empty lines before": [b"\r\n\r\n" + request(b"POST", b"/subjects/a/versions", length(NEW)) + NEW + LAST],
}  # fmt: skip


@each("name", READ)
def test_the_body_is_read(url: str, name: str) -> None:
    found = statuses(url, READ[name])
    assert found == ([200, 200, 200] if name == "behind another" else [200, 200])


def test_http_1_0_gets_no_interim_answer(url: str) -> None:
    head = request(b"POST", b"/subjects/a/versions", b"Expect: 100-Continue\r\n", length(NEW), version=b"1.0")
    assert statuses(url, [head + NEW]) == [200]


def post(*headers: bytes) -> bytes:
    return request(b"POST", b"/subjects/kept/versions", JSON, *headers)


REFUSED: dict[str, bytes] = {
    "Content-Length beside chunked": post(b"Content-Length: 4\r\n", CHUNKED) + b"0\r\n\r\n",
    "chunked beside Content-Length": post(CHUNKED, b"Content-Length: 4\r\n") + b"0\r\n\r\n",
    "and an offered upgrade": post(OFFER, CHUNKED, b"Content-Length: 4\r\n") + b"0\r\n\r\n",
    "two lengths": post(b"Content-Length: 0\r\n", b"Content-Length: 3\r\n") + b"abc",
    "the same length twice": post(b"Content-Length: 3\r\n", b"Content-Length: 3\r\n") + b"abc",
    "a list of lengths": post(b"Content-Length: 3, 3\r\n") + b"abc",
    "a signed length": post(b"Content-Length: +3\r\n") + b"abc",
    "a negative length": post(b"Content-Length: -1\r\n"),
    "a hexadecimal length": post(b"Content-Length: 0x3\r\n") + b"abc",
    "an empty length": post(b"Content-Length:\r\n") + b"abc",
    "a length that overflows": post(b"Content-Length: 18446744073709551616\r\n"),
    "a length with a space": post(b"Content-Length: 1 0\r\n") + b"a",
    "a space before the colon": post(b"Content-Length : 3\r\n") + b"abc",
    "a space before the colon of chunked": post(b"Transfer-Encoding : chunked\r\n") + b"0\r\n\r\n",
    "obs-fold": post(b"Transfer-Encoding:\r\n chunked\r\n") + b"0\r\n\r\n",
    "obs-fold after a value": post(b"X: y\r\n Content-Length: 3\r\n") + b"abc",
    "a space before the first header": b"POST /subjects/kept HTTP/1.1\r\n Host: x\r\nContent-Length: 3\r\n\r\nabc",
    "a bare LF after a header": post(b"X: y\nContent-Length: 3\r\n") + b"abc",
    "bare LFs alone": post(b"Content-Length: 3\r\n").replace(b"\r\n", b"\n") + b"abc",
    "a bare CR in a value": post(b"X: y\rContent-Length: 3\r\n") + b"abc",
    "a NUL in a value": post(b"X: y\0\r\n"),
    "a NUL in chunked": post(b"Transfer-Encoding: chunked\0\r\n") + b"0\r\n\r\n",
    "chunked twice": post(CHUNKED, CHUNKED) + b"0\r\n\r\n",
    "chunked and identity": post(CHUNKED, b"Transfer-Encoding: identity\r\n") + b"0\r\n\r\n",
    "identity": post(b"Transfer-Encoding: identity\r\n", length(b"")),
    "an unknown coding": post(b"Transfer-Encoding: xchunked\r\n") + b"0\r\n\r\n",
    "chunked is not last": post(b"Transfer-Encoding: chunked, gzip\r\n") + b"0\r\n\r\n",
    "another before chunked": post(b"Transfer-Encoding: gzip, chunked\r\n") + b"0\r\n\r\n",
    "chunked with a parameter": post(b"Transfer-Encoding: chunked;a=b\r\n") + b"0\r\n\r\n",
    "an empty coding": post(b"Transfer-Encoding:\r\n", b"Content-Length: 3\r\n") + b"abc",
    "a vertical tab before chunked": post(b"Transfer-Encoding: \x0bchunked\r\n") + b"0\r\n\r\n",
    "an empty chunk size": post(CHUNKED) + b"\r\n\r\n",
    "a signed chunk size": post(CHUNKED) + b"+0\r\n\r\n",
    "a chunk size with 0x": post(CHUNKED) + b"0x0\r\n\r\n",
    "a chunk size that overflows": post(CHUNKED) + b"10000000000000000\r\n\r\n",
    "a space after a chunk size": post(CHUNKED) + b"0 \r\n\r\n",
    "a bare LF after a chunk size": post(CHUNKED) + b"0\n\r\n",
    "a bare LF in a chunk extension": post(CHUNKED) + b"0;a\n\r\n\r\n",
    "a bare CR after a chunk size": post(CHUNKED) + b"0\r\r\n\r\n",
    "a chunk longer than its size": post(CHUNKED) + b"1\r\nabc\r\n0\r\n\r\n",
    "a bare LF after a chunk": post(CHUNKED) + b"1\r\na\n0\r\n\r\n",
    "a length in trailers": post(CHUNKED) + chunked(NEW, trailers=b"Content-Length: 9\r\n"),
    "a coding in trailers": post(CHUNKED) + chunked(NEW, trailers=CHUNKED),
    "HTTP/1.2": request(b"GET", b"/subjects", version=b"1.2"),
    "HTTP/2 without asking": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "an unknown method": request(b"NONE", b"/subjects"),
    "a space in the target": request(b"GET", b"/subjects HTTP/1.1 x"),
    "a header without a colon": post(b"Content-Length 3\r\n") + b"abc",
    "a header without a name": post(b": 3\r\n"),
    "a quoted coding": post(b'Transfer-Encoding: "chunked"\r\n') + chunked(NEW),
    "a comma before chunked": post(b"Transfer-Encoding: , chunked\r\n") + chunked(NEW),
    "a comma behind chunked": post(b"Transfer-Encoding: chunked,\r\n") + chunked(NEW),
    "a form feed behind chunked": post(b"Transfer-Encoding: chunked\x0c\r\n") + chunked(NEW),
    "a length with an underscore": post(b"Content-Length: 1_8\r\n") + NEW,
    "a length in other digits": post("Content-Length: \u0663\r\n".encode()) + b"abc",
    "a length behind a vertical tab": post(b"Content-Length: \x0b3\r\n") + b"abc",
    "a no-break space in a name": post(b"Content-Length\xa0: 3\r\n") + b"abc",
    "a parenthesis in a name": post(b"a(b: 3\r\n", length(NEW)) + NEW,
    "CRs between headers": post(b"X: y\r\rContent-Length: 3\r\n") + b"abc",
    "a bare LF after the request line": b"POST /subjects/kept/versions HTTP/1.1\n" + HOST + length(b"abc") + b"\r\nabc",
    **{
        f"chunks: {name}": post(CHUNKED) + chunks
        for name, chunks in {
            "a space before the size": b" " + chunked(NEW),
            "an underscore in the size": b"1_2\r\n" + NEW + b"\r\n0\r\n\r\n",
            "an extension without a semicolon": b"1 a\r\na\r\n0\r\n\r\n",
            "an empty extension": b"1;\r\na\r\n0\r\n\r\n",
            "a NUL in an extension": b"1;a=\0\r\na\r\n0\r\n\r\n",
            "a CR in an extension": b"1;a=\rb\r\na\r\n0\r\n\r\n",
            "a LF in a quoted extension": b'1;a="\n"\r\na\r\n0\r\n\r\n',
            "two letters as their end": b"1\r\naXX0\r\n\r\n",
            "a CR and a letter as their end": b"1\r\na\rX0\r\n\r\n",
            "a trailer without a colon": chunked(NEW, trailers=b"a b\r\n"),
            "obs-fold in trailers": chunked(NEW, trailers=b"a: b\r\n c\r\n"),
            "a bare LF in trailers": chunked(NEW, trailers=b"a: b\n"),
        }.items()
    },
    "no Host": b"GET /schemas/types HTTP/1.1\r\n\r\n",
    "two Hosts": request(b"GET", b"/schemas/types", b"Host: y\r\n"),
    "two Hosts in HTTP/1.0": request(b"GET", b"/none", b"Host: x\r\n", version=b"1.0"),
    "no Host and an offered upgrade": b"GET /schemas/types HTTP/1.1\r\n" + OFFER + b"\r\n",
    **{
        f"the line {line.decode('latin-1')!r}": line + b"\r\nHost: x\r\n\r\n"
        for line in (
            b"GET\t/subjects\tHTTP/1.1", b" GET /subjects HTTP/1.1", b"get /subjects HTTP/1.1",
            b"GET /subjects HTTP/1.1 ", b"GET /subjects HTPP/1.1", b"GET /subjects ICE/1.0",
            b"GET /subjects http/1.1", b"GET /subjects HTTP/1.10", b"GET /subjects HTTP/11.1",
            b"GET subjects HTTP/1.1", b"GET /sub\x01jects HTTP/1.1", b"GET /sub\x7fjects HTTP/1.1",
        )
    },
    "CONNECT": request(b"CONNECT", b"x:1"),
    "CONNECT with a body": request(b"CONNECT", b"x:1", length(DELETE)),
}  # fmt: skip


def test_what_is_not_plain_is_refused_and_ends_the_connection(url: str) -> None:
    """One answer, a 400, and nothing that comes behind it is read: in the same packet or in the next."""

    def check(name: str) -> None:
        for pieces in ([REFUSED[name] + DELETE + LAST], [REFUSED[name], DELETE, LAST]):
            assert statuses(url, pieces) in ([400], [])  # []: the answer was lost to what was sent after the end
        assert statuses(url, [REFUSED[name]]) == [400]

    check_rows(REFUSED, check)
    assert Client(url).get(PATH.decode() + "/versions").json == [1]


ENDS: dict[str, bytes] = {
    "Connection: close": request(b"GET", b"/subjects/none/versions", b"Connection: close\r\n"),
    "and an offered upgrade": request(
        b"GET", b"/subjects/none/versions", b"Connection: close, upgrade\r\n", b"Upgrade: a\r\n"
    ),
    "HTTP/1.0": request(b"GET", b"/subjects/none/versions", version=b"1.0"),
    "HTTP/1.0 kept alive": request(b"GET", b"/subjects/none/versions", b"Connection: keep-alive\r\n", version=b"1.0"),
    "HTTP/0.9": b"GET /subjects/none/versions\r\n\r\n",
    "HTTP/2.0": request(b"GET", b"/subjects/none/versions", version=b"2.0"),
    "HTTP/1.0 with chunks": request(b"POST", b"/subjects/none", JSON, CHUNKED, version=b"1.0") + chunked(NEW),
    "HTTP/1.0 with an offered upgrade": request(
        b"POST", b"/subjects/none", JSON, OFFER, length(NEW), version=b"1.0"
    ) + NEW,
}  # fmt: skip


def test_nothing_is_read_behind_the_last_request(url: str) -> None:
    def check(name: str) -> None:
        assert statuses(url, [ENDS[name] + DELETE + LAST]) == [404]
        assert statuses(url, [ENDS[name], DELETE, LAST]) in ([404], [])

    check_rows(ENDS, check)
    assert Client(url).get(PATH.decode() + "/versions").json == [1]
