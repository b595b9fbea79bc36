"""Pages show and change what their user may, and nothing else: each user's requests through the pages, by the rules."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from tests.support.access import ADMIN, bearer, files, rule
from tests.support.each import each
from tests.support.service import Client
from tests.support.table import check_rows
from ticdc_bridge.service.testing import running_service

RULES = (
    ADMIN
    + rule(["u"], ["read"], subjects=["seen", "kept"])
    + rule(["ticdc"], ["read", "write", "delete", "config"], subjects=["seen"])
    + rule(["nobody"], ["history"])
    + rule(["keeper"], ["messages"])
)
SEEN_BY = {"root": {"seen", "kept", "hidden"}, "u": {"seen", "kept"}, "ticdc": {"seen"}, "nobody": set()}


class Browser:
    """Asks as a user: (status, text) of an answer. body: a form, or JSON."""

    def __init__(self, url: str) -> None:
        self._client = Client(url)

    def __call__(
        self, user: str | None, method: str, path: str, body: str | dict[str, str] | None = None
    ) -> tuple[int, str]:
        sent = urlencode(body).encode() if isinstance(body, dict) else body.encode() if body else None
        kind = "application/x-www-form-urlencoded" if isinstance(body, dict) else "application/json"
        headers = {"Content-Type": kind, **({"Authorization": bearer(user)} if user else {})}
        answer = self._client.send(method, path, sent, headers)
        return answer.status, answer.body.decode()


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    settings = files(Path(tmp_path_factory.mktemp("access")), RULES)
    with running_service(**settings) as url:
        browser = Browser(url)
        for name in SEEN_BY["root"]:
            assert browser("root", "POST", f"/subjects/{name}/versions", '{"schema": "\\"int\\""}')[0] == 200
        yield browser


def test_who_is_not_known_sees_nothing(ask: Browser) -> None:
    for path in ("/ui", "/ui/subjects", "/ui/subjects/seen", "/ui/tables", "/ui/explain", "/ui/lineage", "/ui/nope",
                 "/ui/topics", "/ui/topics/t", "/ui/dead-letters", "/ui/dead-letters/t"):  # fmt: skip
        status, shown = ask(None, "GET", path)
        assert status == 401
        assert "seen" not in shown


@each(("path", "fields"), [
    ("/ui/subjects/{}/compatibility", {"to": "NONE"}),
    ("/ui/subjects/{}/mode", {"to": "READONLY"}),
    ("/ui/subjects/{}/delete", {"name": "{}", "permanent": "0", "version": ""}),
    ("/ui/subjects/{}/delete", {"name": "{}", "permanent": "1", "version": "1"}),
    ("/ui/server/compatibility", {"to": "NONE"}),
    ("/ui/server/mode", {"to": "READONLY"}),
])  # fmt: skip
def test_who_may_not_change_does_not(ask: Browser, path: str, fields: dict[str, str]) -> None:
    for user, name in (("u", "seen"), ("ticdc", "kept"), ("ticdc", "hidden"), ("nobody", "seen")):
        status, _ = ask(user, "POST", path.format(name), {key: text.format(name) for key, text in fields.items()})
        assert status in (403, 404), (user, name)
    for name in SEEN_BY["root"]:
        assert ask("root", "GET", f"/config/{name}")[0] == 404
        assert ask("root", "GET", f"/mode/{name}")[0] == 404
        assert ask("root", "GET", f"/subjects/{name}/versions")[1] == "[1]"
    assert ask("root", "GET", "/config")[1] == '{"compatibilityLevel":"BACKWARD"}'
    assert ask("root", "GET", "/mode")[1] == '{"mode":"READWRITE"}'


def test_who_may_does(ask: Browser) -> None:
    assert ask("root", "POST", "/subjects/seen/versions", '{"schema": "\\"int\\""}')[0] == 200
    assert ask("ticdc", "POST", "/ui/subjects/seen/compatibility", {"to": "FULL"})[0] == 303
    assert ask("root", "GET", "/config/seen")[1] == '{"compatibilityLevel":"FULL"}'
    assert ask("ticdc", "POST", "/ui/subjects/seen/compatibility", {"to": ""})[0] == 303
    assert ask("ticdc", "POST", "/ui/subjects/seen/delete", {"name": "seen", "permanent": "0"})[0] == 303
    assert ask("root", "GET", "/subjects/seen/versions")[0] == 404
    assert ask("root", "POST", "/subjects/seen/versions", '{"schema": "\\"int\\""}')[0] == 200


@each("path", ["/ui/tables", "/ui/tables/diff?from=1&to=2", "/ui/lineage", "/ui/tables/d/t"])
def test_histories_are_for_those_with_history(ask: Browser, path: str) -> None:
    for user in ("u", "ticdc"):
        assert ask(user, "GET", path)[0] == 403
    assert ask("nobody", "GET", path)[0] in (200, 404)
    judged = {"sql": "DROP TABLE t", "db": quote("d"), "changefeed": "", "sink_uri": "", "config": "", "tables": ""}
    assert ask("u", "POST", "/ui/dry-run", judged)[0] == 403


def test_messages_are_for_those_with_that_right(ask: Browser) -> None:
    """And sending dead letters again is for admins. There is no Kafka here: who may ask is told that, in words."""

    def check(path: str) -> None:
        for user in ("u", "ticdc", "nobody"):
            assert ask(user, "GET", path)[0] == 403
        status, shown = ask("keeper", "GET", path)
        assert (status, "BRIDGE_BOOTSTRAP_SERVERS" in shown) == (200, True)

    check_rows(["/ui/topics", "/ui/topics/t", "/ui/dead-letters", "/ui/dead-letters/t"], check)
    for user, status in (("u", 403), ("nobody", 403), ("keeper", 403), ("root", 422)):
        assert ask(user, "POST", "/ui/dead-letters/t/replay", {"reason": "MALFORMED", "confirmed": "1"})[0] == status
