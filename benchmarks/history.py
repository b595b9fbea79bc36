"""Table histories: from a file of DDL events to a sealed history, a restart with it, and lookups over REST.

Events are Open Protocol messages: CREATE of each table (12 columns), then ALTERs all over them, with a resolved event
after each hundred. The tracker and the service are processes of their own.
"""

import base64
import http.client
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.cpu import tree_seconds
from benchmarks.figures import Figure, Run

ROOT = Path(__file__).parents[1]
TABLES, EVENTS, LOOKUPS, REGISTERED = 10_000, 100_000, 5_000, 200
RATE, P99_MS, START_SECONDS, RSS_MB = 1000.0, 5.0, 5.0, 500.0
_T0, _STEP = 463_293_132_486_213_632, 1 << 18
_CLAUSES = (
    ("ADD COLUMN `n{n}` INT NOT NULL DEFAULT 7", 5),
    ("ADD COLUMN `m{n}` VARCHAR(64) DEFAULT _UTF8MB4'x' AFTER `id`", 5),
    ("MODIFY COLUMN `c0` VARCHAR({n})", 12),
    ("ADD INDEX `i{n}`(`c1`, `c2`)", 7),
    ("ALTER COLUMN `c3` SET DEFAULT _UTF8MB4'{n}'", 15),
)


def run(run: Run) -> Iterator[Figure]:
    """Rates and sizes. RuntimeError where the history is not what the events say."""
    events = run.rows or (EVENTS // 10 if run.quick else EVENTS)
    tables = max(events * TABLES // EVENTS, 10)
    with tempfile.TemporaryDirectory() as folder:
        file, store = Path(folder) / "ddl.jsonl", f"sqlite:///{folder}/history.db"
        run.say(f"{events} DDL events of {tables} tables")
        last = _write(file, tables, events)
        yield from _tracked(run, file, store, events)
        size = sum(path.stat().st_size for path in Path(folder).glob("history.db*"))
        yield Figure("history.store", size / 1e6, "MB", "less", None, None, "versions, events and forms, in SQLite")
        yield from _served(run, store, tables, last)


def _tracked(run: Run, file: Path, store: str, events: int) -> Iterator[Figure]:
    command = [sys.executable, "-m", "service", "track", "--in", str(file), "--store", store, "--changefeed", "bench"]
    started = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=_environment())
    with process:
        assert process.stderr is not None
        said = process.stderr.read().splitlines()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    took, cpu = time.monotonic() - started, usage.ru_utime + usage.ru_stime
    if process.returncode or f"new DDL {events}, copies 0, sealed {events}, pending 0" not in said[-1]:
        raise RuntimeError(f"the tracker: {said[-3:]}")
    note = "start and end of the process are in it"
    yield Figure("history.sealed", events / took, "events/s", "more", RATE, 1.0, f"by the clock; {note}")
    yield Figure("history.sealed.cpu", events / cpu, "events/CPU s", "more", RATE, 1.0, note)
    rss = usage.ru_maxrss / 1024
    yield Figure(
        "history.track.rss", rss, "MB", "less", RSS_MB, 1.0, "the highest; the rival's value is what is allowed"
    )


def _served(run: Run, store: str, tables: int, last: int) -> Iterator[Figure]:
    started = time.monotonic()
    with _service(store) as (process, url):
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        _get(connection, f"/history/shop/t0/at/{last}")
        yield Figure(
            "history.ready", time.monotonic() - started, "s", "less", START_SECONDS, 1.0, "to the first answer"
        )
        chance = random.Random(3)
        for number in range(min(REGISTERED, tables)):
            shown = _get(connection, f"/history/shop/t{number}/at/{last}")
            _post(connection, f"/subjects/shop_t{number}-value/versions", {"schema": shown["avro"][0]["value"]})
        for _ in range(300):
            _get(connection, f"/history/shop/t{chance.randrange(tables)}/at/{last}")
        times, lookups = [], LOOKUPS // 5 if run.quick else LOOKUPS
        busy = tree_seconds(process.pid)
        for _ in range(lookups):
            name, ts = f"t{chance.randrange(tables)}", chance.randrange(_T0 + tables * _STEP, last)
            began = time.perf_counter()
            shown = _get(connection, f"/history/shop/{name}/at/{ts}")
            times.append(time.perf_counter() - began)
            if not shown["commit_ts"] < ts <= (shown["to_ts"] or ts):
                raise RuntimeError(f"{name} at {ts}: {shown['commit_ts']} to {shown['to_ts']}")
        cpu = (tree_seconds(process.pid) - busy) / lookups * 1000
        times.sort()
        note = f"one after the other, {lookups} lookups of any table at any time, with all schemas derived"
        yield Figure("history.at.p50", times[len(times) // 2] * 1000, "ms", "less", None, None, note)
        yield Figure("history.at.p99", times[len(times) * 99 // 100] * 1000, "ms", "less", P99_MS, 1.0, note)
        yield Figure("history.at.cpu", cpu, "CPU ms", "less", None, None, "of the service, a lookup")
        status = Path(f"/proc/{process.pid}/status").read_text("ascii")
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        yield Figure(
            "history.serve.rss", int(found[1]) / 1024 if found else 0, "MB", "less", RSS_MB, 1.0, "the highest"
        )


def _write(path: Path, tables: int, events: int) -> int:
    """The file of messages; gives the last commit_ts."""
    chance, ts = random.Random(1), _T0
    columns = ",".join(f"`c{n}` VARCHAR(32) DEFAULT _UTF8MB4'x'" for n in range(8))
    more = "`d` DECIMAL(10,2) NOT NULL DEFAULT 0,`e` ENUM('a','b'),`t` DATETIME(3)"
    with path.open("w", encoding="ascii") as out:
        for number in range(events):
            ts += _STEP
            table, kind = f"t{number}", 3
            query = f"CREATE TABLE `shop`.`{table}` (`id` BIGINT PRIMARY KEY,{columns},{more})"
            if number >= tables:
                clause, kind = _CLAUSES[number % len(_CLAUSES)]
                table = f"t{chance.randrange(tables)}"
                query = f"ALTER TABLE `shop`.`{table}` {clause.format(n=number)}"
                if "MODIFY" in clause:
                    query = f"ALTER TABLE `shop`.`{table}` {clause.format(n=number % 200 + 32)}"
            out.write(_line({"ts": ts, "scm": "shop", "tbl": table, "t": 2}, json.dumps({"q": query, "t": kind})))
            if number % 100 == 99:
                out.write(_line({"ts": ts, "t": 3}, ""))
        out.write(_line({"ts": ts, "t": 3}, ""))
    return ts


def _line(key: dict[str, Any], value: str) -> str:
    text, body = json.dumps(key).encode(), value.encode()
    framed = (1).to_bytes(8, "big") + len(text).to_bytes(8, "big") + text, len(body).to_bytes(8, "big") + body
    both = [base64.b64encode(piece).decode() for piece in framed]
    return json.dumps({"topic": "shop", "partition": 0, "key_b64": both[0], "value_b64": both[1]}) + "\n"


@contextmanager
def _service(store: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "service", "serve", "--port", "0", "--store", store]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=_environment())
    with process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                found = re.search(r"listening on (http://\S+)", line)
                if found:
                    yield process, found[1]
                    return
            raise RuntimeError("the service did not start")
        finally:
            process.terminate()


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("BRIDGE_")}


def _get(connection: http.client.HTTPConnection, path: str) -> Any:
    connection.request("GET", path)
    return _answer(connection, path)


def _post(connection: http.client.HTTPConnection, path: str, body: Any) -> Any:
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    return _answer(connection, path)


def _answer(connection: http.client.HTTPConnection, path: str) -> Any:
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        raise RuntimeError(f"{path}: {response.status} {body[:300]!r}")
    return json.loads(body)
