"""The home page: what is followed, what needs attention, and what is not known here."""

import re
import time
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.support.access import ADMIN, bearer, files, rule
from tests.support.history_events import T0, ddl, resolved, write
from tests.support.service import Client
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.testing import running_service
from ticdc_bridge.service.tracker.config import parse_tracked

SINK = "kafka://user:s3cret@k:9092/t?protocol=avro&enable-tidb-extension=true"


def track_file(folder: Path) -> Path:
    """Two changefeeds: one whose file has DDL that can't be applied, with its settings; one whose Kafka is away."""
    create = ddl(T0, "d", "t", "CREATE TABLE `d`.`t` (`a` INT PRIMARY KEY)")
    write(folder / "shop.jsonl", [create, ddl(T0 + 1, "d", "nope", "ALTER TABLE `d`.`nope` DROP"), resolved(T0 + 9)])
    (folder / "changefeed.toml").write_text("[sink]\nschema-registry = 'http://u:s3cret@r:8081'\n")
    text = (
        f'[[changefeed]]\nname = "shop"\nin = "shop.jsonl"\nformat = "open"\nsink-uri = "{SINK}"\n'
        'config = "changefeed.toml"\naccept = "timestamp-zone, nothing"\n'
        '[[changefeed]]\nname = "<b>away"\nin = "kafka:t"\nbootstrap-servers = "127.0.0.1:1"\n'
    )
    (folder / "track.toml").write_text(text)
    return folder / "track.toml"


def home_when(client: Client, text: str) -> str:
    """The page, once the text is on it."""
    deadline = time.monotonic() + 30
    while text not in (shown := client.get("/ui").body.decode()):
        assert time.monotonic() < deadline, shown
        time.sleep(0.1)
    return shown


def test_what_needs_attention(tmp_path: Path) -> None:
    with running_service(f"sqlite:///{tmp_path / 'r.db'}", track=str(track_file(tmp_path))) as url:
        client = Client(url)
        home_when(client, "file read")
        shown = home_when(client, "not followed now: Kafka at 127.0.0.1:1")
        for text in (
            "1 DDL statement could not be applied", "bigint-unsigned-long", "The settings of &lt;b&gt;away",
            "Jobs: none has reported its lineage", "Dead letters: This service is not connected to Kafka",
        ):  # fmt: skip
            assert text in shown, text
        assert ("s3cret" in shown, "<b>away" in shown, "timestamp-zone" in shown) == (False, False, False)
        [shop, away] = client.get("/history/trackers").json
        assert (shop["stopped"], shop["messages"], away["findings"]) == ("end of the file", 3, None)
        assert "s3cret" not in str(shop)
        reported = client.send("POST", "/history/dry-run", {"db": "d", "sql": "ALTER TABLE t ADD COLUMN b INT NOT NULL",
                                                        "changefeed": "shop"}).json  # fmt: skip
        assert [schema["protocol"] for schema in reported["schemas"]] == [
            "avro"
        ]  # by the settings that the service was told
        page = client.send("POST", "/ui/dry-run", urlencode({"db": "d", "sql": "DROP TABLE t"}).encode())
        assert page.status == 200


def test_home_is_for_those_who_may_see_it(tmp_path: Path) -> None:
    rules = ADMIN + rule(["u"], ["read"], subjects=["s"]) + rule(["history"], ["history"])
    with running_service(f"sqlite:///{tmp_path / 'r.db'}", **files(tmp_path, rules)) as url:
        pages = {}
        for user in ("root", "u", "history"):
            answer = Client(url).get("/ui", Authorization=bearer(user))
            assert answer.status == 200
            pages[user] = answer.body.decode()
        assert Client(url).get("/ui").status == 401
    assert ("you need the right history" in pages["u"], "<h2>Changefeeds" in pages["u"]) == (True, False)
    assert "you need the right messages" in pages["history"]
    assert re.search(r"Nothing needs attention, as far as this service knows", pages["root"])


def test_settings_that_can_not_be_read(tmp_path: Path) -> None:
    file = tmp_path / "track.toml"
    file.write_text('[[changefeed]]\nname = "shop"\nin = "kafka:t"\nconfig = "nope.toml"\n')
    with pytest.raises(SetupError, match=r"changefeed shop: --config .*nope\.toml"):
        parse_tracked(str(file))
