"""Passwords and tokens are in no log line and in no answer, whatever happens with them."""

import io
import json
import logging
import signal
from base64 import b64encode
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path

import pytest
import typer

from tests.support.access import ADMIN, PASSWORD, TOKENS, basic, bearer, files
from tests.support.each import each
from tests.support.service import Client, listening_at, serve
from ticdc_bridge.cli.output import exit_with
from ticdc_bridge.clients.http import HttpClient, HttpLogin
from ticdc_bridge.clients.kafka import library, make_client
from ticdc_bridge.schemas.inputs.kafka_settings import settings_for_librdkafka
from ticdc_bridge.schemas.model.credentials import mask_credentials
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.changefeed.reader import read_files
from ticdc_bridge.service.server import logs
from ticdc_bridge.service.store import dialect_of, open_store
from ticdc_bridge.spark_jobs.streaming import lineage

SECRET = "s3cr3t-of-nobody"
FORMATTERS = (logs.TextLines(), logs.JsonLines())


@each(("text", "masked"), [
    ("store postgresql://u:p@ss@host:5432/db failed", "store postgresql://***@host:5432/db failed"),
    ("http://alice@h/x?y=a@b", "http://***@b"),
    ("Authorization: Basic YWxpY2U6c2VjcmV0", "Authorization: Basic ***"),
    ("bearer abcdefgh.ij-k_l=", "bearer ***"),
    ("dsn host=h password=abc user=u", "dsn host=h password=*** user=u"),
    ("postgresql://h/db?password=abc&sslmode=x", "postgresql://h/db?password=***&sslmode=x"),
    ("http://host:8081/subjects", "http://host:8081/subjects"),
    ("basic rules", "basic rules"),
])  # fmt: skip
def test_what_is_masked(text: str, masked: str) -> None:
    assert mask_credentials(text) == masked
    for formatter in FORMATTERS:
        line = formatter.format(logging.LogRecord("x", logging.ERROR, "", 0, "%s", (text,), None))
        assert (json.loads(line)["message"] if line.startswith("{") else line.partition(": error: ")[2]) == masked


@each("text", [
    f"http://alice:{SECRET}@registry:8081/subjects", f"at http://{SECRET}@registry:8081: refused",
    f"store=postgresql://alice:p@{SECRET}@db:5432/registry",
    f"postgresql://db/registry?sslpassword={SECRET}&sslmode=verify-full",
    f"kafka://broker:9092/topic?sasl-user=alice&sasl-password={SECRET}",
    f"Authorization: Basic {b64encode(f'alice:{SECRET}'.encode()).decode()} {{}}".format(""),
    f"{{'Authorization': 'Bearer {SECRET}{SECRET}'}}", f"sasl.password={SECRET}",
    f"sasl.oauthbearer.client.secret = {SECRET}", f"ssl.key.password={SECRET},x",
    f'sasl.jaas.config=a.b.PlainLoginModule required username="alice" password="{SECRET} \\"{SECRET}";',
    f'a.b.OAuthBearerLoginModule required clientId="alice" clientSecret="{SECRET}";',
    f'{{"user": "alice", "password": "{SECRET}", "api_token": "{SECRET}"}}', f"BRIDGE_REGISTRY_TOKEN={SECRET}",
])  # fmt: skip
def test_every_form_of_secret_is_masked(capsys: pytest.CaptureFixture[str], text: str) -> None:
    record = logging.LogRecord("x", logging.ERROR, "", 0, "%s", (text,), (ValueError, ValueError(text), None))
    with pytest.raises(typer.Exit):
        exit_with(text)
    said = [capsys.readouterr().err, mask_credentials(text), *(f.format(record) for f in FORMATTERS)]
    for line in said:
        assert SECRET not in line
        assert b64encode(SECRET.encode()).decode()[:-4] not in line
        assert "***" in line


def refused(function: Callable[[], object]) -> str:
    with pytest.raises(SetupError) as error:
        function()
    return error.value.detail


def warned(url: str) -> str:
    with redirect_stderr(io.StringIO()) as error_text:
        lineage.send(url, {})
    return error_text.getvalue()


def kafka_refused(**settings: str) -> str:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    config = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "sasl_ssl", "sasl.mechanisms": "PLAIN", **names}
    return refused(lambda: make_client(library().Consumer, {"group.id": "x", **config}))


NOBODY = f"http://alice:{SECRET}@127.0.0.1:1"
LOGIN = HttpLogin(f"alice:{SECRET}", SECRET, wait=0.0)
DSN = f"alice:{SECRET}@h/d?sslpassword={SECRET}"
MESSAGES: dict[str, Callable[[], str]] = {
    "a registry that is away": lambda: refused(lambda: HttpClient(NOBODY, login=LOGIN).ask("GET", "/")),
    "a registry's bad URL": lambda: refused(lambda: HttpClient(f"ftp://alice:{SECRET}@h")),
    "a registry's URL with a / in its password": lambda: refused(lambda: HttpClient(f"http://a:{SECRET}/x@h")),
    "a registry's bad port": lambda: refused(lambda: HttpClient(f"http://a:{SECRET}@h:many")),
    "credentials, printed": lambda: repr(LOGIN),
    "a store's URL": lambda: dialect_of(f"postgresql://{DSN}", 1, 1).url,
    "a store of no kind": lambda: refused(lambda: dialect_of(f"nosuch://{DSN}", 1, 1)),
    "a store without a database": lambda: refused(lambda: dialect_of(f"postgresql://alice:{SECRET}@h", 1, 1)),
    "a store that is away": lambda: refused(
        lambda: open_store(f"postgresql://alice:{SECRET}@127.0.0.1:1/d", wait_seconds=0.1)
    ),
    "Kafka's settings: an unknown one": lambda: kafka_refused(sasl_password=SECRET, no_such=SECRET),
    "Kafka's settings: a key that is not there": lambda: kafka_refused(
        ssl_key_password=SECRET, ssl_key_location=f"/nowhere/{SECRET}"
    ),
    "Kafka's settings: JAAS": lambda: refused(
        lambda: settings_for_librdkafka({"sasl.jaas.config": f'password="{SECRET}" a.b.NoModule;'})
    ),
    "a sink URI": lambda: repr(
        read_files(f"kafka://alice:{SECRET}@h/t?protocol=avro&sasl-password={SECRET}&no-such={SECRET}", None).problems
    ),
    "a job's lineage": lambda: warned(NOBODY),
    "a job's lineage, bad URL": lambda: warned(f"ftp://alice:{SECRET}@h"),
}


@each("name", MESSAGES)
def test_no_message_names_a_secret(name: str) -> None:
    text = MESSAGES[name]()
    assert text
    assert SECRET not in text


def test_masking_hostile_text_ends() -> None:
    """Bounded by the length of the text: nothing backs up for ever."""
    for text in (
        "://" * 20_000,
        "://" + "@" * 20_000,
        "a@b " + "://" * 20_000,
        "basic " * 20_000,
        "password=" * 20_000,
        "password" * 20_000,
        "token = '" * 20_000,
        '"secret":"' * 20_000,
        "@" + "://" * 20_000,
        "a://@" * 20_000,
    ):
        assert len(mask_credentials(text)) <= 2 * len(text)


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
