"""Passwords and tokens are in no log line and in no answer, whatever happens with them."""

from __future__ import annotations

import json
import logging
import signal
from base64 import b64encode
from pathlib import Path

import pytest

from service import logs
from tests.support.access import ADMIN, PASSWORD, TOKENS, basic, bearer, files
from tests.support.service import Client, listening_at, serve
from tests.support.table import check_rows

SECRET = "s3cr3t-of-nobody"


MASKED: list[tuple[str, str]] = [
    ("store postgresql://u:p@ss@host:5432/db failed", "store postgresql://***@host:5432/db failed"),
    ("http://alice@h/x?y=a@b", "http://***@b"),
    ("Authorization: Basic YWxpY2U6c2VjcmV0", "Authorization: Basic ***"),
    ("bearer abcdefgh.ij-k_l=", "bearer ***"),
    ("dsn host=h password=abc user=u", "dsn host=h password=*** user=u"),
    ("postgresql://h/db?password=abc&sslmode=x", "postgresql://h/db?password=***&sslmode=x"),
    ("http://host:8081/subjects", "http://host:8081/subjects"),
    ("basic rules", "basic rules"),
]


def test_what_is_masked() -> None:
    def check(row: tuple[str, str]) -> None:
        text, masked = row
        assert logs.mask_credentials(text) == masked
        for formatter in (logs.TextLines(), logs.JsonLines()):
            line = formatter.format(logging.LogRecord("x", logging.ERROR, "", 0, "%s", (text,), None))
            assert (json.loads(line)["message"] if line.startswith("{") else line.partition(": error: ")[2]) == masked

    check_rows(MASKED, check)


def test_masking_hostile_text_ends() -> None:
    """Bounded by the length of the text: nothing backs up for ever."""
    for text in (
        "://" * 20_000,
        "://" + "@" * 20_000,
        "a@b " + "://" * 20_000,
        "basic " * 20_000,
        "password=" * 20_000,
    ):
        assert len(logs.mask_credentials(text)) <= len(text)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_nothing_of_a_request_shows_its_credentials(tmp_path: Path, log_format: str) -> None:
    settings = files(tmp_path, ADMIN)
    variables = {"BRIDGE_LOG_LEVEL": "debug", "BRIDGE_LOG_FORMAT": log_format, "BRIDGE_ACCESS_LOG": "true"}
    arguments = ("--port", "0", "--auth-file", settings["auth_file"], "--acl-file", settings["acl_file"])
    process = serve(*arguments, cwd=tmp_path, **variables)
    with process:
        url = listening_at(process)
        client = Client(url)
        answers = []
        for authorization in (
            basic("alice", PASSWORD),
            bearer("root"),
            bearer("u"),
            basic("alice", SECRET),
            f"Bearer {SECRET}{SECRET}",
            f"Negotiate {SECRET}",
            f"Basic {SECRET}",
        ):
            for path in ("/", "/subjects/a/versions", "/no/such", "/config", "/%00"):
                for method in ("GET", "PUT"):
                    answers.append(client.send(method, path, b"{}", {"Authorization": authorization}))
        Path(settings["auth_file"]).write_text(f"alice:{SECRET}\n")
        said = []
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            if "What was in force before stays in force" in line:
                break
        process.send_signal(signal.SIGTERM)
        said += process.stderr.readlines()
    text = "".join(said) + "".join(answer.body.decode() + str(answer.headers) for answer in answers)
    assert "GET" in text
    for secret in (PASSWORD, SECRET, *TOKENS.values()):
        assert secret not in text
        assert b64encode(secret.encode()).decode()[:-4] not in text


def test_a_store_url_is_said_without_its_password(tmp_path: Path) -> None:
    process = serve("--port", "0", "--store", f"nosuch://user:{SECRET}@host/db", cwd=tmp_path)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "***@host/db" in said
    assert SECRET not in said
