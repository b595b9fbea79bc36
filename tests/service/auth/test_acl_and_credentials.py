"""The auth file and the ACL file: what is taken, what is refused, and what a refusal must not show."""

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from tests.support.access import ADMIN, PASSWORD, TOKENS, auth_lines, basic, bearer, rule
from tests.support.each import each
from ticdc_bridge.cli.app import app
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.auth import acl, credentials
from ticdc_bridge.service.auth.acl import ALL, NOTHING, fits
from ticdc_bridge.service.auth.file_watcher import FileWatcher
from ticdc_bridge.service.errors import RegistryError

USERS = credentials.read(auth_lines(), "auth")


def test_who_a_header_proves() -> None:
    async def names(*headers: str) -> list[str | None]:
        found = credentials.Authenticator(lambda: USERS)
        try:
            return [await found.name(header.encode("latin-1")) for header in headers]
        finally:
            found.close()

    good = [basic("alice", PASSWORD), basic("u", TOKENS["u"]), bearer("u"), bearer("u").replace("Bearer", "bEARER ")]
    assert asyncio.run(names(*good, *good)) == ["alice", "u", "u", "u"] * 2
    bad = [
        basic("alice", PASSWORD + "x"), basic("alice", ""), basic("alice", "x" * 73), basic("alice", "a\0b"),
        basic("nobody-known", PASSWORD), basic("alice", TOKENS["u"]), bearer("u") + "x", "Bearer ", "Bearer u",
        f"Bearer {PASSWORD}", "Basic", "Basic ???", "Basic " + "QUFB", "Digest username=alice", "",
        "Basic " + "A" * 9000,
    ]  # fmt: skip
    assert asyncio.run(names(*bad, *bad)) == [None] * (2 * len(bad))


def test_the_same_header_is_checked_once_and_a_flood_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = 0
    real = credentials.Credentials.has_password

    def counted(self: credentials.Credentials, name: str, password: str) -> bool:
        nonlocal checked
        checked += 1
        return real(self, name, password)

    monkeypatch.setattr(credentials.Credentials, "has_password", counted)

    async def run() -> tuple[list[object], list[object]]:
        found = credentials.Authenticator(lambda: USERS)
        try:
            same = [found.name(basic("alice", PASSWORD).encode("latin-1")) for _ in range(100)]
            together: list[object] = [*await asyncio.gather(*same, return_exceptions=True)]
            flood = [found.name(basic("alice", str(n)).encode()) for n in range(100)]
            return together, [*await asyncio.gather(*flood, return_exceptions=True)]
        finally:
            found.close()

    together, flood = asyncio.run(run())
    assert together == ["alice"] * 100
    refused = [entry for entry in flood if isinstance(entry, RegistryError)]
    assert len(refused) == 100 - credentials._WAITING
    assert {entry.code for entry in refused} == {"TOO_MANY_LOGINS"}
    assert checked == 1 + credentials._WAITING


def test_a_changed_file_forgets_who_was_known() -> None:
    now = USERS

    async def run() -> list[str | None]:
        nonlocal now
        found = credentials.Authenticator(lambda: now)
        try:
            first = await found.name(basic("alice", PASSWORD).encode("latin-1"))
            now = credentials.read(f"bob:{credentials.hash_of('x', 8)}", "auth")
            return [first, await found.name(basic("alice", PASSWORD).encode("latin-1"))]
        finally:
            found.close()

    assert asyncio.run(run()) == ["alice", None]


@each(("line", "says"), [
    ("bob:hunter2secret", "no bcrypt hash"), ("bob:{SHA}hunter2secret", "unsalted SHA-1"),
    ("bob:$apr1$hunter2secret$", "Apache's MD5"), ("bob:$6$hunter2secret", "SHA-512-crypt"),
    ("bob:$2y$31$" + "hunter2secret" * 5, "no bcrypt hash"), ("bob:$2y$31$" + "a" * 53, "cost must be 8 to 14"),
    ("bob:$2y$04$" + "a" * 53, "cost must be 8 to 14"), ("bob:$sha256$hunter2secret", "no bcrypt hash"),
    ("hunter2secret", "not NAME:HASH"), ("b b:hunter2secret", "this name can't be used"),
    ("anonymous:hunter2secret", "this name can't be used"), (":hunter2secret", "this name can't be used"),
])  # fmt: skip
def test_lines_that_are_refused(line: str, says: str) -> None:
    with pytest.raises(SetupError) as raised:
        credentials.read(f"\n{line}\n", "users")
    assert says in raised.value.detail
    assert "hunter2" not in raised.value.detail
    assert "line 2" in raised.value.detail


@each(("text", "says"), [
    ("who = 1", "'who'"), ("[[rules]]\nwho=['a']\nmay=['read']", "no subjects"),
    ("[[rules]]\nwho=['a']\nmay=['raed']\nsubjects=['x']", "raed"),
    ("[[rules]]\nwho=['a']\nmay=['admin']\nsubjects=['x']", "whole server"),
    ("[[rules]]\nwho=['role:x']\nmay=['read']\nsubjects=['x']", "no role 'x'"),
    ("[[rules]]\nwho=['a']\nmay=['read']\nsubject=['x']", "'subject'"),
    ("[[rules]]\nwho='a'\nmay=['read']\nsubjects=['x']", "list of texts"),
    ("[[rules]]\nmay=['read']\nsubjects=['x']", "who"), ("[[rules]]\nwho=['a']\nmay=[]\nsubjects=['x']", "may"),
    ("roles = []", "roles"), ("rules = {}", "rules"), ("rules = [1]", "rules"), ("a = [" * 5000, "acl"),
    ("a = ", "Invalid value"),
])  # fmt: skip
def test_rules_that_are_refused(text: str, says: str) -> None:
    with pytest.raises(SetupError, match=says):
        acl.read(text, "acl")


def test_what_rules_allow() -> None:
    rules = acl.read(
        '[roles]\nteam = ["u", "cert:job"]\n'
        + ADMIN
        + rule(["role:team"], ["write"], prefixes=["shop."], subjects=[":.:exact"])
        + rule(["*"], ["read"], patterns=["*-public", ":.c:*"])
        + rule(["u"], ["metrics"]),
        "acl",
    )
    assert rules.access("root") == ALL
    user, job, other = rules.access("u"), rules.access("cert:job"), rules.access("x")
    for access in (user, job):
        assert [access.may(entry, "shop.a") for entry in ("read", "write", "delete", "config")] == [
            True,
            True,
            *[False] * 2,
        ]
        assert access.may("write", "exact")
        assert not access.may("read", "exact2")
    assert user.may("read", "a-public")
    assert not user.may("write", "a-public")
    assert other.may("read", ":.c:anything")
    assert not other.may("read", "shop.a")
    assert user.may_serve("metrics")
    assert not other.may_serve("metrics")
    assert acl.read("", "acl").access("root") == NOTHING


@given(st.text("ab*", max_size=12), st.text("ab", max_size=14))
def test_patterns_mean_what_fnmatch_means(pattern: str, name: str) -> None:
    """A straightforward matcher says the same."""

    def matches(p: str, n: str) -> bool:
        if not p:
            return not n
        if p[0] == "*":
            return any(matches(p[1:], n[index:]) for index in range(len(n) + 1))
        return n[:1] == p[0] and matches(p[1:], n[1:])

    assert fits(pattern, name) == matches(pattern.replace("**", "*"), name)


def test_hostile_patterns_end() -> None:
    """As a regular expression this would take longer than anybody lives."""
    assert not fits("*a" * 500 + "b", "a" * 60_000)


def test_a_broken_file_changes_nothing_until_it_is_whole_again(tmp_path: Path) -> None:
    path = tmp_path / "acl.toml"
    path.write_text(ADMIN)
    found = FileWatcher("", str(path))
    before = found.rules
    assert before.access("root") == ALL
    path.write_text("[[rules]\n")
    found.look()
    assert found.rules is before
    assert found.problem is not None
    path.unlink()
    found.look()
    assert found.rules is before
    path.write_text(ADMIN)
    found.look()
    assert found.rules is before
    assert not found.problem
    path.write_text(rule(["other"], ["admin"]))
    os.utime(path, ns=(1, 1))
    found.look()
    assert found.rules.access("root") == NOTHING
    assert found.rules.access("other") == ALL


@pytest.mark.parametrize("empty", ["", "\n", "# nobody yet\n", "\r\n  \n#\n"])
def test_a_file_without_users_lets_nobody_in_until_it_has_one(
    tmp_path: Path, empty: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A secret that is yet to be filled; but one that had users and is empty now is taken for a broken file."""
    path = tmp_path / "users"
    path.write_text(empty)
    watcher = FileWatcher(str(path))
    assert watcher.rules.credentials.names == set()
    assert not watcher.rules.credentials.has_password("root", "")
    assert "nobody is in it, so every request" in caplog.text
    path.write_text(f"root:{credentials.new_token()[1]}\n")
    watcher.look()
    assert watcher.rules.credentials.names == {"root"}
    path.write_text(empty)
    watcher.look()
    assert watcher.rules.credentials.names == {"root"}
    assert watcher.problem is not None
    assert "nobody is in it" in watcher.problem


def test_a_second_write_of_the_same_moment_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "acl.toml"
    path.write_text(ADMIN)
    found = FileWatcher("", str(path))
    stamp = path.stat()
    path.write_text(ADMIN.replace("root", "toor"))
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    found.look()
    assert found.rules.access("toor") == ALL


def command(*arguments: str, given: str = "") -> Result:
    return CliRunner().invoke(app, arguments, input=given)


def test_commands_make_and_try_the_files(tmp_path: Path) -> None:
    auth_file, acl_file = tmp_path / "auth", tmp_path / "acl"
    password = command("hash-password", "alice", given="secret\n").stdout
    made = command("new-token", "ticdc")
    token = made.stderr.split()[-1]
    auth_file.write_text(password + made.stdout)
    users = credentials.read(auth_file.read_text(), "auth")
    assert users.has_password("alice", "secret")
    assert users.name_of_token(token) == "ticdc"
    acl_file.write_text(rule(["ticdc"], ["write"], prefixes=["shop."]))
    checked = command("check-acl", str(acl_file), "ticdc", "shop.a", "--auth-file", str(auth_file))
    assert (checked.exit_code, checked.stdout) == (0, "read, write\n")
    assert "no rule for: alice" in checked.stderr
    assert command("check-acl", str(acl_file), "ticdc", "other").exit_code == 1
    assert command("check-acl", str(auth_file)).exit_code == 2
    assert command("hash-password", "alice", given="x" * 73).exit_code == 2
