"""What users see and may do, over HTTP: by the answers' bytes, through kept answers too."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.access import ADMIN, PASSWORD, TOKENS, basic, bearer, files, rule
from tests.support.routes import routes
from tests.support.service import Answer, Client, column, record, until
from ticdc_bridge.service.api.routing import KNOWN, OPEN
from ticdc_bridge.service.auth.acl import OF_SERVER, OF_SUBJECTS
from ticdc_bridge.service.auth.filtered_store import ListenerGroup
from ticdc_bridge.service.server.app import create_app
from ticdc_bridge.service.server.settings import Settings
from ticdc_bridge.service.testing import running_service

RULES = (
    ADMIN
    + rule(["u"], ["read"], prefixes=["shop."])
    + rule(["ticdc"], ["write"], prefixes=["shop.", ":.c:shop."])
    + rule(["nobody"], ["delete", "config"], subjects=["shop.a"])
)
A, B = record("A", column("a")), record("B", column("b"))


class As:
    """A client that says who it is."""

    def __init__(self, client: Client, authorization: str | None) -> None:
        self._client, self._headers = client, {} if authorization is None else {"Authorization": authorization}

    def send(self, method: str, path: str, body: Any = None) -> Answer:
        return self._client.send(method, path, body, self._headers)

    def get(self, path: str) -> Answer:
        return self.send("GET", path)

    def register(self, subject: str, schema: str, **more: Any) -> Answer:
        return self.send("POST", f"/subjects/{subject}/versions", {"schema": schema, **more})


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Client]:
    with running_service(**files(tmp_path, RULES)) as url:
        yield Client(url)


@pytest.fixture
def root(service: Client) -> As:
    return As(service, bearer("root"))


def test_who_does_not_say_who_they_are(service: Client) -> None:
    for authorization in (None, bearer("root") + "x", basic("alice", "wrong"), "Basic !", "Negotiate x"):
        for method, path in (("GET", "/"), ("GET", "/subjects"), ("POST", "/subjects/a/versions"), ("GET", "/metrics")):
            answer = As(service, authorization).send(method, path, {} if method == "POST" else None)
            assert (answer.status, answer.body) == (401, b'{"error_code":401,"message":"Unauthorized"}')
            assert answer.headers["www-authenticate"].startswith("Basic realm=")
            assert answer.headers["x-request-id"]
    twice = service.send("GET", "/", None, {"Authorization": bearer("root"), "authorization": bearer("root")})
    assert twice.status == 401


def test_health_is_open_and_the_rest_is_not_by_another_spelling(service: Client) -> None:
    assert As(service, None).get("/health/live").status == 200
    assert As(service, "Basic wrong").get("/health/ready").json == {"status": "ready"}
    for path in ("/health/live/../subjects", "/subjects;/health/live", "//health/live", "/contexts/.c/subjects"):
        assert As(service, None).get(path).status in (400, 401), path


def test_ticdc_with_user_and_password_in_its_url(service: Client, root: As) -> None:
    """Go turns the URL's user info into Basic on every request, the first `GET` included."""
    ticdc = As(service, basic("ticdc", TOKENS["ticdc"]))
    assert ticdc.get("").body == b"{}"
    assert ticdc.get("/").body == b"{}"
    answer = ticdc.register("shop.orders-value", A)
    assert (answer.status, answer.json["id"]) == (200, 1)
    assert ticdc.register("shop.orders-value", A).json["id"] == 1
    assert ticdc.get("/schemas/ids/1").json["schema"] == A.replace(" ", "")
    assert root.register("other", A).json["id"] == 1


def test_a_password_counts_in_utf_8(service: Client) -> None:
    assert As(service, basic("alice", PASSWORD)).get("/").status == 200


def test_what_is_refused_is_refused_in_confluents_words(service: Client, root: As) -> None:
    root.register("shop.a", A)
    root.register("other", A)
    user, writer = As(service, bearer("u")), As(service, bearer("ticdc"))
    for who, method, path, body, words in (
        (user, "POST", "/subjects/shop.a/versions", {"schema": A}, "Write on Subject: shop.a"),
        (user, "POST", "/subjects/other/versions", {"schema": A}, "Write on Subject: other"),
        (user, "POST", "/subjects/neither/versions", {"schema": A}, "Write on Subject: neither"),
        (writer, "POST", "/subjects/other/versions", {"schema": A}, "Write on Subject: other"),
        (writer, "POST", "/subjects/%3A.d%3Ashop.a/versions", {"schema": A}, "Write on Subject: :.d:shop.a"),
        (writer, "POST", "/contexts/.d/subjects/shop.a/versions", {"schema": A}, "Write on Subject: :.d:shop.a"),
        (writer, "DELETE", "/subjects/shop.a", None, "Delete on Subject: shop.a"),
        (writer, "DELETE", "/subjects/shop.a/", None, "Delete on Subject: shop.a"),
        (writer, "DELETE", "/subjects/shop.a;x", None, "Delete on Subject: shop.a"),
        (writer, "DELETE", "/subjects/other", None, "Delete on Subject: other"),
        (writer, "DELETE", "/subjects/shop.a/versions/1", None, "Delete on Subject: shop.a"),
        (writer, "POST", "/subjects/other/versions/1/tags", {}, "Write on Subject: other"),
        (writer, "PUT", "/config/shop.a", {"compatibility": "NONE"}, "Config on Subject: shop.a"),
        (writer, "PUT", "/mode/shop.a", {"mode": "IMPORT"}, "Config on Subject: shop.a"),
        (writer, "DELETE", "/config/shop.a", None, "Config on Subject: shop.a"),
        (writer, "PUT", "/config", {"compatibility": "NONE"}, "Admin on the server"),
        (writer, "PUT", "/config/", {"compatibility": "NONE"}, "Admin on the server"),
        (writer, "PUT", "/config/:.:", {"compatibility": "NONE"}, "Admin on the server"),
        (writer, "PUT", "/mode/:.__GLOBAL:", {"mode": "READONLY"}, "Admin on the server"),
        (writer, "DELETE", "/mode", None, "Admin on the server"),
        (writer, "DELETE", "/contexts/.c", None, "Delete on Subject: :.c:"),
        (writer, "DELETE", "/contexts/.", None, "Admin on the server"),
        (writer, "GET", "/metrics", None, "Metrics on the server"),
    ):
        answer = who.send(method, path, body)
        expected = {"error_code": 40301, "message": f"User is denied operation {words}"}
        assert (answer.status, answer.json) == (403, expected), (method, path)
    assert root.get("/subjects").json == ["other", "shop.a"]
    assert root.get("/metrics").status == 200
    assert user.get("/no/such/path").status == 404
    assert user.send("PUT", "/subjects").status == 405


def test_references_and_aliases_lead_nowhere_hidden(service: Client, root: As) -> None:
    root.register("other", B)
    writer = As(service, bearer("ticdc"))
    user = record("User", column("f", "B"))
    reference = [{"name": "B", "subject": "other", "version": 1}]
    refused = writer.register("shop.a", user, references=reference)
    absent = writer.register("shop.a", user, references=[{**reference[0], "subject": "absent"}])
    assert refused.error == absent.error == (422, 42201)
    assert refused.body.replace(b"other", b"absent")[-80:] == absent.body[-80:]
    assert root.register("shop.a", user, references=reference).status == 200
    assert writer.get("/subjects/shop.a/versions/1").status == 200
    assert writer.get("/subjects/shop.a/versions/1?format=resolved").error == (422, 42201)
    assert root.get("/subjects/other/versions/1/referencedby").json != []
    assert root.send("DELETE", "/subjects/other").error == (422, 42206)
    root.send("PUT", "/config/shop.alias", {"alias": "other"})
    assert writer.get("/subjects/shop.alias/versions/1").error == (404, 40401)
    for schema in (record("C"), B):
        refused = writer.register("shop.alias", schema)
        assert refused.error == (403, 40301)
        assert refused.json["message"] == "User is denied operation Write on Subject: shop.alias"
    assert root.get("/subjects/other/versions").json == [1]


def test_an_alias_of_a_hidden_subject_is_none_and_stays(service: Client, root: As) -> None:
    """It is in no answer, and a change of the config by who does not see it does not take it away."""
    root.register("other", B)
    keeper = As(service, bearer("nobody"))
    root.send("PUT", "/config/shop.a", {"alias": "other", "aliasForDeks": "other"})
    for query in ("", "?defaultToGlobal=true"):
        assert b"other" not in keeper.get(f"/config/shop.a{query}").body
    assert keeper.get("/config/shop.a").error == (404, 40408)
    assert keeper.send("DELETE", "/config/shop.a").error == (404, 40401)
    changed = keeper.send("PUT", "/config/shop.a", {"compatibility": "FULL"})
    assert (changed.status, changed.json) == (200, {"compatibility": "FULL"})
    assert keeper.get("/config/shop.a").json == {"compatibilityLevel": "FULL"}
    assert root.get("/config/shop.a").json == {"alias": "other", "aliasForDeks": "other", "compatibilityLevel": "FULL"}
    assert keeper.send("PUT", "/config/shop.a", {"alias": "shop.a"}).status == 200
    assert root.get("/config/shop.a").json["alias"] == "shop.a"
    assert keeper.send("DELETE", "/config/shop.a").json == {"alias": "shop.a", "compatibilityLevel": "FULL"}
    assert root.get("/config/shop.a").error == (404, 40408)


def test_kept_answers_follow_what_others_do(service: Client, root: As) -> None:
    root.register("shop.a", A)
    user, writer = As(service, bearer("u")), As(service, bearer("ticdc"))
    for version in range(1, 6):
        for who in (user, writer, user, writer):
            assert who.get("/subjects/shop.a/versions").json == list(range(1, version + 1))
        root.register("shop.a", record("A", *(column(f"c{n}", default=0) for n in range(version)), column("a")))
    assert writer.register("shop.b", B).json["id"] == user.get("/subjects/shop.b/versions/1").json["id"]
    assert user.get("/subjects").json == ["shop.a", "shop.b"]
    root.send("DELETE", "/subjects/shop.a")
    assert user.get("/subjects").json == ["shop.b"]
    assert writer.get("/subjects/shop.a/versions").error == (404, 40401)


def test_who_comes_while_something_changes_forgets_it_at_the_end() -> None:
    """A listener that did not hear of a change's beginning may have kept what was there before."""

    class Told:
        def __init__(self) -> None:
            self.words: list[str] = []

        def before_change(self, _parts: Any) -> None:
            self.words.append("changing")

        def after_change(self, _parts: Any) -> None:
            self.words.append("changed")

        def forget(self) -> None:
            self.words.append("forget")

    listeners, early, late = ListenerGroup(), Told(), Told()
    listeners.add(early)
    listeners.before_change([("x",)])
    listeners.add(late)
    listeners.after_change([("x",)])
    listeners.before_change([("y",)])
    listeners.after_change([("y",)])
    assert early.words == ["changing", "changed"] * 2
    assert late.words == ["forget", "changing", "changed"]


def test_a_page_of_another_site_changes_nothing(service: Client) -> None:
    """A browser sends the credentials that its user has typed once; the API takes bodies without a type."""
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
        headers = {"Authorization": bearer("root"), "Sec-Fetch-Site": site}
        assert service.send("POST", f"/subjects/{site}/versions", {"schema": A}, headers).status == status
        assert service.send("GET", "/subjects", None, headers).status == 200


def test_who_may_delete_and_configure_but_not_write(service: Client, root: As) -> None:
    for subject in ("shop.a", "shop.b"):
        root.register(subject, A)
    keeper = As(service, bearer("nobody"))
    assert keeper.get("/subjects").json == ["shop.a"]
    assert keeper.register("shop.a", B).error == (403, 40301)
    assert keeper.send("PUT", "/config/shop.a", {"compatibility": "NONE"}).status == 200
    assert keeper.send("PUT", "/mode/shop.a", {"mode": "READONLY"}).status == 200
    assert keeper.send("DELETE", "/mode/shop.a").json == {"mode": "READONLY"}
    assert keeper.send("DELETE", "/subjects/shop.a").json == [1]
    assert keeper.send("DELETE", "/subjects/shop.a?permanent=true").json == [1]
    assert keeper.get("/config/shop.a").error == (404, 40408)
    assert keeper.send("DELETE", "/subjects/shop.b").error == (403, 40301)


def test_without_rules_whoever_is_known_may_do_everything(tmp_path: Path) -> None:
    with running_service(**files(tmp_path), open_metrics=True) as url:
        known = As(Client(url), bearer("nobody"))
        assert known.register("a", A).status == 200
        assert known.send("PUT", "/config", {"compatibility": "NONE"}).status == 200
        assert As(Client(url), None).get("/metrics").status == 200
        assert As(Client(url), None).get("/subjects").status == 401


def test_changed_files_count_within_seconds(tmp_path: Path) -> None:
    settings = files(tmp_path, RULES)
    with running_service(**settings) as url:
        root, user = As(Client(url), bearer("root")), As(Client(url), bearer("u"))
        root.register("other", A)
        assert user.get("/subjects").json == []
        path = Path(settings["acl_file"])
        path.write_text("broken")
        until(lambda: "access" in root.get("/health/ready").json)
        assert user.get("/subjects").json == []
        path.write_text(RULES + rule(["u"], ["read"], subjects=["other"]))
        until(lambda: user.get("/subjects").json == ["other"])
        assert root.get("/health/ready").json == {"status": "ready"}
        auth = Path(settings["auth_file"])
        auth.write_text("\n".join(line for line in auth.read_text().splitlines() if not line.startswith("u:")))
        until(lambda: user.get("/subjects").status == 401)


def test_every_route_has_its_permission(tmp_path: Path) -> None:
    """Nothing but what its declaration says; an operation on a subject is on one that the path names."""
    app = create_app(Settings(store=f"sqlite:///{tmp_path / 'r.db'}"))
    app.state.services.registry.store.close()
    rows = list(routes(app.routes))
    assert len(rows) > 60
    for method, path, route in rows:
        assert route.needs in (OPEN, KNOWN, *OF_SERVER, *OF_SUBJECTS), (method, path)
        assert route.needs not in OF_SUBJECTS or "{subject}" in path or "{context}" in path, (method, path)
        assert route.needs != OPEN or path.startswith("/health/"), (method, path)


def test_a_header_is_what_base64_says(service: Client) -> None:
    """Half a surrogate, bytes that are no UTF-8 and a colon in the password are a user's business, not an error."""
    for raw in (b"\xff:\xfe", b"a:b:c", b":", b"a", b"\x00:\x00"):
        header = "Basic " + base64.b64encode(raw).decode()
        assert As(service, header).get("/subjects").status == 401
