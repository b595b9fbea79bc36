"""Files and words that fit nothing: exit code 2 and one line that says what, where and what is needed."""

from pathlib import Path

from tests.support.python_words import assert_no_python_words
from tests.support.service import command
from tests.support.table import check_rows

_CHECK = ("check-ddl", "ALTER TABLE d.t ADD a INT", "--ddl", "t.sql")
_DOCTOR = ("doctor", "--sink-uri", "kafka://h:9092/t?protocol=avro")
_SNAPSHOT = ("history", "snapshot", "--store", "sqlite:///s.db", "--message")
ROWS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("import", "t.sql", "--ca", "no.pem", "--to", "https://127.0.0.1:1"), "--ca no.pem: No such file"),
    (("import", "t.sql", "--ca", "t.sql", "--to", "https://127.0.0.1:1"), "--ca t.sql: it has no PEM certificate"),
    (("import", "t.sql", "--to", "http://h", "--store", "sqlite:///s.db"), "are two targets: give one of them"),
    (("import", "ftp://h/x"), "kafka:TOPIC, http://HOST:PORT"),
    (("import", "t.sql", "--store", "mysql://u:secret@h/x"), "mysql://***@h/x: a FILE"),
    (("track", "--in", "t.sql", "--store", "sqlite:///folder"), "is a folder: name a file in it"),
    (("track", "--in", "kafka:t"), "--bootstrap-servers"),
    (("track", "--in", "t.sql", "--time-zone", "Mars"), "--time-zone: no time zone 'Mars'"),
    (("new-token", "a:b"), "no colon"),
    (("hash-password", ""), "1 to 255 characters"),
    (("health", "now"), "health: now: this is one word too many"),
    (("health", "--url", "http://h:port"), "no number from 0 to 65535"),
    (("serve", "--store", "nonsense"), "write sqlite:///PATH"),
    (("serve", "--store", "sqlite:///none/registry.db"), "does not exist"),
    (("serve", "--store", "postgresql://localhost"), "write postgresql://HOST/DATABASE"),
    (("serve", "--host", "256.0.0.1"), "can't listen on 256.0.0.1"),
    (("serve", "--profile", "6"), "--profile: 7 or 8 is needed"),
    (("serve", "--port", "70000"), "--port: 65535 or less is needed"),
    (("serve", "--unknown"), "there is no option --unknown"),
    (("serve", "--tls-cert", "t.sql"), "TLS certificate t.sql (key in it): it is not PEM"),
    (("serve", "--tls-cert", "no.pem"), "no.pem (key in it): No such file"),
    (("serve", "--track", "no.toml"), "--track no.toml: No such file or directory (a topic is kafka:TOPIC)"),
    (("serve", "--track", "latin1"), "--track latin1: byte 1 is not UTF-8"),
    (("serve", "--track", "kafka:t"), "--bootstrap-servers"),
    (("serve", "--kafka-config", "no.properties"), "--kafka-config no.properties: there is no such file"),
    (("serve", "--log-format", "xml"), "--log-format: 'xml' is not one of 'text', 'json'"),
    ((*_DOCTOR, "--time-zone", "Mars"), "--time-zone: no time zone 'Mars'"),
    ((*_DOCTOR, "--config", "brace.json"), "neither TOML nor JSON: a name in double quotes is missing"),
    (("doctor", "--sink-uri", "kafka://h:port/t"), "sink URI can't be read: the port is no number"),
    ((*_CHECK, "--schemas", "brace.json"), "--schemas brace.json: a name in double quotes is missing"),
    ((*_CHECK, "--schemas", "latin1"), "--schemas latin1: byte 1 is not UTF-8"),
    (("check-ddl", "ALTER TABLE d.t ADD a INT", "--schemas", "t.sql"), "--schemas FILE goes with --ddl SOURCE"),
    (("check-ddl", "ALTER TABLE d.t ADD a INT", "--ddl", "mysql://"), "mysql://USER@HOST:PORT/DATABASE is needed"),
    (("check-ddl", "ALTER TABLE d.t ADD a INT", "--ddl", "no.sql"), "--ddl no.sql: No such file"),
    ((*_SNAPSHOT, "no.json"), "--message no.json: a line of JSON with key_b64"),
    ((*_SNAPSHOT, "empty"), "a value is missing"),
    ((*_SNAPSHOT, "latin1"), "not UTF-8"),
    ((*_SNAPSHOT, "folder"), "Is a directory"),
    ((*_SNAPSHOT, "brace.json"), "a name in double quotes is missing"),
    (("history", "rebuild", "--store", "sqlite:///none.db"), "there is no such file: `serve` and `track` make it"),
    (("history", "replay", "brace.json"), "line 1 is no line of a DDL history: a name in double quotes"),
    (("history", "replay", "list.json"), "line 1 is no line of a DDL history"),
)


def _write_files(folder: Path) -> None:
    (folder / "folder").mkdir()
    (folder / "s.db").touch()
    (folder / "t.sql").write_text("CREATE TABLE d.t (id INT PRIMARY KEY);")
    for name, data in (("empty", b""), ("latin1", b"[\xe9]"), ("brace.json", b"{"), ("list.json", b"[1]")):
        (folder / name).write_bytes(data)


def test_wrong_usage(tmp_path: Path) -> None:
    _write_files(tmp_path)

    def check(row: tuple[tuple[str, ...], str]) -> None:
        words, reason = row
        done = command(*words, cwd=tmp_path, BRIDGE_PORT="0")
        assert done.exit_code == 2, done.output
        assert reason in done.stderr
        assert_no_python_words(done.stderr.replace(" None is ", " "))
        assert "secret" not in done.stderr

    check_rows(ROWS, check, lambda row: " ".join(row[0]))


def test_lines_that_a_tracker_can_not_read(tmp_path: Path) -> None:
    _write_files(tmp_path)
    for name, reason in (("latin1", "byte 1 is not UTF-8"), ("brace.json", "a name in double quotes is missing")):
        done = command("track", "--in", name, "--store", "sqlite:///t.db", cwd=tmp_path)
        assert (done.exit_code, f"BAD_LINE {name}:1: not JSON: {reason}" in done.stderr) == (1, True)
        assert_no_python_words(done.stderr)


def test_not_every_unreadable_message_is_logged(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("{\n" * 1001)
    done = command("track", "--in", "bad", "--store", "sqlite:///t.db", cwd=tmp_path)
    assert (done.stderr.count("BAD_LINE bad:"), "errors 1001" in done.stderr) == (21, True)
    assert "BAD_LINE bad:1000: " in done.stderr


def test_settings_as_windows_writes_them(tmp_path: Path) -> None:
    """A byte order mark at the start, and both characters at the end of a line."""
    _write_files(tmp_path)
    (tmp_path / "feed.toml").write_bytes(b"\xef\xbb\xbf[sink]\r\nprotocol = 'open-protocol'\r\n")
    uri = "kafka://127.0.0.1:9092/t"
    assert command("doctor", "--sink-uri", uri, "--config", "feed.toml", cwd=tmp_path).exit_code in (0, 1)
    (tmp_path / "acl.toml").write_bytes(b"\xef\xbb\xbf[[rules]]\r\nwho = ['a']\r\nmay = ['admin']\r\n")
    assert command("check-acl", "acl.toml", "a", cwd=tmp_path).stdout == "everything (admin)\n"
