"""The pages about subjects, as a person uses them."""

import json

import pytest
from fastapi import Request
from playwright.sync_api import Locator, Page, expect

from tests.service.ui.conftest import EVIL, path_parameter
from tests.support.service import Client, column, record
from ticdc_bridge.service.ui.pages import FormError, ListView

ORDERS = "tidb_shop_orders-value"


def test_subjects_are_listed_with_what_matters(page: Page) -> None:
    page.goto("/ui/subjects")
    row = page.get_by_role("row", name="tidb_shop_customers-value")
    expect(row).to_contain_text("1–2")
    expect(row).to_contain_text("AVRO")
    expect(row).to_contain_text("BACKWARD (inherited)")
    expect(row).to_contain_text("READWRITE")
    expect(page.get_by_role("row", name="orders AVRO")).to_contain_text(".eu")


@pytest.mark.parametrize(
    ("text", "by", "there", "not_there"),
    [
        ("ORDERS", "name", ORDERS, "tidb_shop_customers-key"),
        ("2", "schema id", "tidb_shop_customers-value", ORDERS),
        ("price", "column", ORDERS, "tidb_shop_customers-value"),
    ],
)
def test_search(page: Page, text: str, by: str, there: str, not_there: str) -> None:
    page.goto("/ui/subjects")
    page.get_by_label("Search").fill(text)
    page.get_by_label("By", exact=True).select_option(by)
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("link", name=there, exact=True)).to_be_visible()
    expect(page.get_by_role("link", name=not_there, exact=True)).to_have_count(0)


def test_a_version_and_what_changed(page: Page) -> None:
    page.goto("/ui/subjects/tidb_shop_customers-value")
    page.get_by_role("link", name="what changed in version 2").click()
    expect(page.get_by_role("heading")).to_contain_text("versions 1 and 2")
    expect(page.locator("tr.new, tr.changed").filter(has_text='"phone"')).to_have_count(1)
    expect(page.get_by_text("lines are the same").first).to_be_visible()
    page.get_by_label("all lines").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("lines are the same")).to_have_count(0)
    expect(page.get_by_role("row", name='"balance"').first).to_be_visible()
    page.get_by_role("link", name="tidb_shop_customers-value").click()
    page.get_by_role("link", name="2", exact=True).click()
    expect(page.get_by_role("row", name="balance")).to_contain_text("decimal(16,4)")
    expect(page.get_by_role("row", name="balance")).to_contain_text("DECIMAL")


def test_a_pasted_schema_is_checked(page: Page, served: Client) -> None:
    served.send("POST", "/subjects/checked/versions", {"schema": record("r", column("a", "int"))})
    page.goto("/ui/subjects/checked")
    page.get_by_label("Schema", exact=True).fill(record("r", column("a", "int"), column("b", "int")))
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("status")).to_contain_text("Not compatible.")
    expect(page.get_by_role("status")).to_contain_text("READER_FIELD_MISSING_DEFAULT_VALUE The field 'b'")
    page.get_by_label("Schema", exact=True).fill(record("r", column("a", "long")))
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("status")).to_contain_text("Compatible.")
    page.get_by_label("Schema", exact=True).fill("{")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("status")).to_contain_text("It can't be checked.")


def test_a_schema_is_registered(page: Page, served: Client) -> None:
    page.goto("/ui/subjects")
    page.get_by_text("Register a new subject").click()
    page.get_by_label("Subject", exact=True).fill(f"new {EVIL}")
    page.get_by_label("Schema", exact=True).fill(record("r", column("a", "int")))
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"new {EVIL}")
    page.get_by_label("Schema", exact=True).fill(record("r", column("a", "long")))
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_label("Version", exact=True)).to_have_value("2")
    expect(page.get_by_role("row", name="a long")).to_be_visible()
    page.get_by_label("Version", exact=True).select_option("1")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("row", name="a int")).to_be_visible()
    page.get_by_label("Schema", exact=True).fill(text := record("r", column("b", "int")))
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("alert")).to_contain_text("409")
    expect(page.get_by_label("Schema", exact=True)).to_have_value(text)
    for fields, more in ((b"subject=&schema=x", {}), (b"subject=x&schema=%22int%22", {"Sec-Fetch-Site": "cross-site"})):
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        assert served.send("POST", "/ui/server/register", fields, {**kind, **more}).status == 400
    assert served.send("GET", "/subjects/x/versions").status == 404


def test_what_was_filled_in_stays(page: Page, served: Client) -> None:
    """A Protobuf schema that refers to another subject, held against one version."""
    served.send(
        "POST", "/subjects/base/versions", {"schema": 'syntax = "proto3"; message A {}', "schemaType": "PROTOBUF"}
    )
    text = 'syntax = "proto3"; import "a.proto"; message B { A a = 1; }'
    of = [{"name": "a.proto", "subject": "base", "version": 1}]
    body = {"schema": text, "schemaType": "PROTOBUF", "references": of}
    assert served.send("POST", "/subjects/refers/versions", body).status == 200
    page.goto("/ui/subjects/refers")
    page.get_by_label("Schema", exact=True).fill(text)
    page.get_by_text("References to other subjects").click()
    page.get_by_label("References").fill(json.dumps(of))
    page.get_by_label("Type", exact=True).select_option("PROTOBUF")
    page.get_by_label("Against").select_option("version 1")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("status")).to_contain_text("Compatible.")
    expect(page.get_by_label("Type", exact=True)).to_have_value("PROTOBUF")
    expect(page.get_by_label("Against")).to_have_value("1")
    page.get_by_label("References").fill("{}")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_contain_text("The references are not a list")


def test_the_servers_settings(page: Page, served: Client) -> None:
    page.goto("/ui/subjects")
    page.get_by_text("Change the server's settings").click()
    page.get_by_label("Compatibility", exact=True).select_option("FULL")
    page.get_by_role("button", name="Set the server's compatibility").click()
    expect(page.get_by_text("Server: compatibility FULL, mode READWRITE.")).to_be_visible()
    page.get_by_text("Change the server's settings").click()
    page.get_by_label("Mode", exact=True).select_option("IMPORT")
    page.get_by_role("button", name="Set the server's mode").click()
    expect(page.get_by_role("alert")).to_contain_text("42205")  # there are subjects
    page.goto("/ui/subjects")
    page.get_by_text("Change the server's settings").click()
    page.get_by_label("Compatibility", exact=True).select_option("")
    page.get_by_role("button", name="Set the server's compatibility").click()
    expect(page.get_by_text("Server: compatibility BACKWARD")).to_be_visible()
    assert served.send("POST", "/ui/server/passwords", b"to=x").status == 400


def test_by_id_what_is_deleted_only_when_asked(page: Page, served: Client) -> None:
    number = served.send("POST", "/subjects/past/versions", {"schema": record("past")}).json["id"]
    served.send("DELETE", "/subjects/past")
    page.goto(f"/ui/subjects?by=id&q={number}")
    expect(page.get_by_text("Nothing found.")).to_be_visible()
    page.get_by_label("include deleted").check()
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("row", name="past")).to_contain_text("deleted")


def test_compatibility_and_mode_are_changed(page: Page, served: Client) -> None:
    served.send("POST", "/subjects/changed/versions", {"schema": '"int"'})
    page.goto("/ui/subjects/changed")
    page.get_by_label("Compatibility").select_option("FULL_TRANSITIVE")
    page.get_by_role("button", name="Set compatibility").click()
    expect(page.get_by_text("compatibility FULL_TRANSITIVE,")).to_be_visible()
    assert served.send("GET", "/config/changed").json == {"compatibilityLevel": "FULL_TRANSITIVE"}
    page.get_by_label("Mode").select_option("READONLY")
    page.get_by_role("button", name="Set mode").click()
    assert served.send("GET", "/mode/changed").json == {"mode": "READONLY"}
    page.get_by_label("Mode").select_option("inherited")
    page.get_by_role("button", name="Set mode").click()
    page.get_by_label("Mode").select_option("IMPORT")
    page.get_by_role("button", name="Set mode").click()
    expect(page.get_by_role("alert")).to_contain_text("42205")  # it has versions: the API says no, and the page why


def test_deleting_asks_first_and_again_for_good(page: Page, served: Client) -> None:
    served.send("POST", "/subjects/going/versions", {"schema": '"int"'})
    page.goto("/ui/subjects/going")
    page.get_by_role("link", name="Delete this subject").click()
    page.get_by_label("Type the subject's name").fill("goin")
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing is deleted")
    page.get_by_label("Type the subject's name").fill("going")
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("deleted").first).to_be_visible()
    assert served.send("GET", "/subjects/going/versions").status == 404
    page.get_by_role("link", name="Delete this subject").click()
    expect(page.get_by_text("For good.")).to_be_visible()
    page.get_by_label("Type the subject's name").fill("going")
    page.get_by_role("button", name="Delete for good").click()
    page.wait_for_url("**/ui/subjects")
    assert served.send("GET", "/subjects/going/versions?deleted=true").status == 404


def test_hostile_names_are_text(page: Page) -> None:
    page.goto("/ui/subjects")
    page.get_by_role("link", name=EVIL, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(EVIL)
    page.get_by_role("link", name="1", exact=True).click()
    expect(page.locator("pre").last).to_contain_text("</pre><script>")
    assert "ticdc-bridge" in page.title()


def test_by_keyboard_only(page: Page, served: Client) -> None:
    served.send("POST", "/subjects/keys/versions", {"schema": '"int"'})
    page.goto("/ui/subjects")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.type("keys")
    page.keyboard.press("Enter")
    link = page.get_by_role("link", name="keys", exact=True)
    expect(link).to_be_visible()
    tab_to(page, link)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("keys")


def tab_to(page: Page, wanted: Locator) -> None:
    for _ in range(60):
        if wanted.evaluate("it => it === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the keyboard never gets to {wanted}")


def test_a_subject_is_changed_and_deleted_by_keyboard_only(page: Page, served: Client) -> None:
    served.send("POST", "/subjects/typed/versions", {"schema": '"int"'})
    page.goto("/ui/subjects/typed")
    tab_to(page, page.get_by_label("Compatibility"))
    page.keyboard.type("FULL")
    tab_to(page, page.get_by_role("button", name="Set compatibility"))
    page.keyboard.press("Space")
    expect(page.get_by_text("compatibility FULL,")).to_be_visible()
    tab_to(page, page.get_by_role("link", name="Delete this subject"))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_label("Type the subject's name"))
    page.keyboard.type("typed")
    page.keyboard.press("Enter")
    expect(page.get_by_text("deleted").first).to_be_visible()
    assert served.send("GET", "/subjects/typed/versions").status == 404


def test_forms_of_other_sites_change_nothing(served: Client) -> None:
    served.send("POST", "/subjects/guarded/versions", {"schema": '"int"'})
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    for foreign in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://elsewhere.example"}):
        answer = served.send("POST", "/ui/subjects/guarded/compatibility", b"to=NONE", {**kind, **foreign})
        assert answer.status == 400
    assert served.send("GET", "/config/guarded").status == 404


def test_every_page_has_the_policy(served: Client) -> None:
    for path in (
        "/ui/subjects",
        f"/ui/subjects/{path_parameter(EVIL)}",
        "/ui/subjects/nope",
        "/ui/explain",
        "/ui/style.css",
        "/ui/nope",
        "/ui/tables",
        "/ui/tables/shop/orders",
        "/ui/dry-run",
        "/ui/lineage",
        "/ui",
    ):
        headers = served.send("GET", path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'"), path
        assert headers["x-content-type-options"] == "nosniff"


def test_a_page_that_is_not_there_says_so(served: Client) -> None:
    answer = served.send("GET", "/ui/subjects/nope")
    assert answer.status == 404
    assert b"Subject &#39;nope&#39; not found" in answer.body
    assert served.send("GET", "/ui/subjects?q=x&by=id").status == 400
    for path in ("subjects?from=abc", "subjects?from=-1", "tables/diff?offset=x", "lineage?changefeed=none"):
        assert served.send("GET", f"/ui/{path}").status == 400, path
    assert served.send("GET", f"/ui/subjects?q={'9' * 5000}&by=id").status == 400
    for path in ("/ui/nope", "/ui/subjects/base/nope/nope", "/ui/subjects/base/mode"):
        nowhere = served.send("GET", path)
        assert nowhere.status == 404
        assert b"There is no such page." in nowhere.body
    assert served.send("GET", f"/ui/subjects/{ORDERS}/delete?version={'9' * 5000}").status == 200


def test_lists_are_sorted_by_their_headings(page: Page) -> None:
    page.goto("/ui/subjects?q=tidb")
    ids = page.locator('td[data-label="Latest id"]')
    for order in ("descending", "ascending"):
        page.get_by_role("link", name="Latest id").click()
        expect(page.get_by_role("columnheader", name="Latest id")).to_have_attribute("aria-sort", order)
        shown = [int(text) for text in ids.all_inner_texts()]
        assert shown == sorted(shown, reverse=order == "descending")
        assert len(shown) == 5
    for path in ("/ui?sort=waiting", "/ui/tables?sort=-state", "/ui/subjects?sort=nope", "/ui/subjects?sort=-versions"):
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200
        expect(page.locator("tbody tr").first).to_be_visible()


def test_more_rows_than_are_sorted_are_refused() -> None:
    view = ListView(Request({"type": "http", "query_string": b"sort=-n&from=50"}), q="x")
    assert view.asked == {"limit": 1000}
    assert [row["n"] for row in view.fill([{"n": n} for n in range(120)], 120).rows] == [*range(69, 19, -1)]
    assert view.links == [(1, "?q=x&sort=-n&from=0"), (2, ""), (3, "?q=x&sort=-n&from=100")]
    with pytest.raises(FormError, match="5,000 rows are too many to sort"):
        view.fill([{"n": n} for n in range(1000)], 5000)
    assert view.heading("-n") == ("", "")
