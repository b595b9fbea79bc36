"""The registry's requests a second beside a bare ASGI app on the same uvicorn, and what durable writes cost.

The load comes from wrk (2 threads and 32 connections, or 1 and 1 or 16), on the same machine: compare within one run.
The two servers are processes of their own, asked in turn. CPU is that of the server process alone.
"""

import http.client
import json
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.cpu import tree_seconds
from benchmarks.figures import Figure, Run

ROOT = Path(__file__).parents[1]
COLUMNS = 60
MANY = 20_000
FEW = 200
WRITERS = 16
BY_ID, LATEST, POSTED = 0.75, 0.7, 0.4
SEQUENTIAL, TOGETHER = 500.0, 1000.0
UNCHANGED = 0.9
START_SECONDS, RSS_MB = 3.0, 250.0
MIXED_CONNECTIONS, MIXED_P99 = 16, 15.0
_UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0}

_POST = """\
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/vnd.schemaregistry.v1+json"
local file = io.open(os.getenv("BENCH_BODY"), "rb")
wrk.body = file:read("*all")
"""
# The first NUMBER of the body becomes another one in every request; so does the subject.
_NEW = """\
local file = io.open(os.getenv("BENCH_BODY"), "rb")
local before, after = string.match(file:read("*all"), "^(.*)NUMBER(.*)$")
local headers = {["Content-Type"] = "application/vnd.schemaregistry.v1+json"}
local number = 0
function request()
  number = number + 1
  local name = os.getenv("BENCH_PREFIX") .. number
  return wrk.format("POST", "/subjects/" .. name .. "/versions", headers, before .. name .. after)
end
"""

# One of 20 requests registers a schema; the others read one of the first FEW by its id.
_MIXED = """\
local file = io.open(os.getenv("BENCH_BODY"), "rb")
local before, after = string.match(file:read("*all"), "^(.*)NUMBER(.*)$")
local headers = {["Content-Type"] = "application/vnd.schemaregistry.v1+json"}
local prefix, number = "m" .. os.time() .. "x", 0
function request()
  number = number + 1
  if number % 20 > 0 then
    return wrk.format("GET", "/schemas/ids/" .. math.random(FEW))
  end
  local name = prefix .. number
  return wrk.format("POST", "/subjects/" .. name .. "/versions", headers, before .. name .. after)
end
"""


@dataclass(frozen=True, slots=True)
class Served:
    """A server process and where it listens."""

    process: subprocess.Popen[str]
    url: str

    def rss_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0


@dataclass(frozen=True, slots=True)
class Load:
    """A request that wrk repeats. script: Lua, with `body` in a file and `prefix` in the environment."""

    path: str
    script: str = ""
    body: str = ""
    threads: int = 2
    connections: int = 32


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests a second, CPU microseconds of the server for one, and in how many ms 99 of 100 are answered."""

    per_second: float
    cpu: float
    p99: float


def run(asked: Run) -> Iterator[Figure]:
    """Figures in requests a second. RuntimeError where wrk is missing or an answer was not 200."""
    if shutil.which("wrk") is None:
        raise RuntimeError("wrk is not installed (Debian: apt-get install wrk)")
    seconds, rounds = (2, 3) if asked.quick else (3, 5)
    many = asked.rows or (MANY // 10 if asked.quick else MANY)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with registry(folder) as served:
            yield from known(asked, served, folder, seconds, rounds)
        yield from mixed(asked, folder, seconds, rounds)
        yield from growing(asked, folder, many, seconds, rounds)


def known(asked: Run, served: Served, folder: Path, seconds: int, rounds: int) -> Iterator[Figure]:
    """What is there already: read by id and as the latest, looked up and registered again."""
    eight = schema(0, 8 * 1024)
    register(served, "eight", eight)
    sixty = schema(1)
    register(served, "sixty", sixty)
    body = json.dumps({"schema": sixty})
    loads = (
        ("by-id", Load("/schemas/ids/1"), BY_ID),
        ("latest", Load("/subjects/eight/versions/latest"), LATEST),
        ("look-up", Load("/subjects/sixty", _POST, body), POSTED),
        ("register-known", Load("/subjects/sixty/versions", _POST, body), POSTED),
    )
    for name, load, target in loads:
        answer = ask(served.url, "POST" if load.body else "GET", load.path, load.body or None)
        with bare_app(folder, answer) as bare:
            ours, rival = in_turn(asked, name, (served, bare), load, folder, seconds, rounds)
        yield Figure(f"registry.{name}", ours.per_second, "requests/s", "more", rival.per_second, target)
        yield Figure(f"registry.{name}.cpu", ours.cpu, "us/request", "less", rival.cpu)


def mixed(asked: Run, folder: Path, seconds: int, rounds: int) -> Iterator[Figure]:
    """95 % reads by id, 5 % new schemas: what kept answers are worth while the registry changes all the time."""
    store = folder / "mixed"
    store.mkdir()
    with registry(store) as served:
        yield from mixed_load(asked, "registry.mixed", served, folder, seconds, rounds)


def mixed_load(asked: Run, name: str, served: Served, folder: Path, seconds: int, rounds: int) -> Iterator[Figure]:
    """The figures of a registry that is empty yet."""
    load = Load("/", _MIXED.replace("FEW", str(FEW)), json.dumps({"schema": schema("NUMBER")}), 1, MIXED_CONNECTIONS)
    fill(served, FEW, "few")
    with bare_app(folder, ask(served.url, "GET", "/schemas/ids/1", None)) as bare:
        ours, rival = in_turn(asked, name, (served, bare), load, folder, seconds, rounds)
    yield Figure(name, ours.per_second, "requests/s", "more", rival.per_second)
    yield Figure(f"{name}.cpu", ours.cpu, "us/request", "less", rival.cpu)
    yield Figure(f"{name}.p99", ours.p99, "ms", "less", MIXED_P99, 1.0, "the rival's value is what is allowed")


def growing(asked: Run, folder: Path, many: int, seconds: int, rounds: int) -> Iterator[Figure]:
    """New schemas in a small store and in a full one, in turn; then a start with all that the full one has."""
    store = folder / "many"
    store.mkdir()
    body = json.dumps({"schema": schema("NUMBER")})
    rates: dict[tuple[str, int], list[Rate]] = {
        (size, writers): [] for size in ("few", "many") for writers in (1, WRITERS)
    }
    with registry(store) as full:
        asked.say(f"registering {many} schemas of {COLUMNS} columns")
        fill(full, many, "fill")
        for number in range(rounds):
            fresh = folder / f"few{number}"
            fresh.mkdir()
            with registry(fresh) as small:
                fill(small, FEW, "few")
                for writers in (1, WRITERS):
                    pair = (("few", small), ("many", full))
                    for size, served in pair if number % 2 else reversed(pair):
                        measured = new(served, folder, body, f"n{number}x{writers}x", writers, seconds)
                        asked.say(f"{writers} writers, {size}: {measured.per_second:.0f}/s, {measured.cpu:.0f} us CPU")
                        rates[size, writers].append(measured)
    note = "the rival's value is the rate that is asked for"
    for name, writers, target in (("sequential", 1, SEQUENTIAL), (f"{WRITERS}-writers", WRITERS, TOGETHER)):
        few, full_ = median(rates["few", writers]), median(rates["many", writers])
        yield Figure(f"registry.new.{name}", few.per_second, "schemas/s", "more", target, 1.0, note)
        yield Figure(f"registry.new.{name}.cpu", few.cpu, "us/schema", "less")
        filled = f"registry.new.{name}.{many}-there"
        yield Figure(filled, full_.per_second, "schemas/s", "more", few.per_second, UNCHANGED)
        yield Figure(f"{filled}.cpu", full_.cpu, "us/schema", "less", few.cpu)
    plain = sqlite(folder, schema(0), seconds)
    yield Figure(
        "registry.new.sqlite-alone", plain, "commits/s", "more", None, None, "one text a commit: what the disk allows"
    )
    started = time.perf_counter()
    with registry(store) as served:
        ask(served.url, "GET", "/subjects/fill-1/versions/latest", None)
        first = time.perf_counter() - started
        yield Figure("registry.start", first, "s", "less", START_SECONDS, 1.0, "the rival's value is what is allowed")
        by_id, listed = Load("/schemas/ids/100"), Load("/subjects", connections=4)  # half a megabyte each
        with bare_app(folder, ask(served.url, "GET", listed.path, None)) as bare:
            ours, rival = in_turn(asked, "subjects, many there", (served, bare), listed, folder, seconds, rounds)
        yield Figure(f"registry.subjects.{many}-there", ours.per_second, "requests/s", "more", rival.per_second)
        with bare_app(folder, ask(served.url, "GET", by_id.path, None)) as bare:
            ours, rival = in_turn(asked, "by-id, many there", (served, bare), by_id, folder, seconds, rounds)
        yield Figure(f"registry.by-id.{many}-there", ours.per_second, "requests/s", "more", rival.per_second, BY_ID)
        for number in range(1, many, max(many // 2000, 1)):
            ask(served.url, "GET", f"/schemas/ids/{number}", None)
        yield Figure("registry.rss", served.rss_mb(), "MB", "less", RSS_MB, 1.0, "the rival's value is what is allowed")


def sqlite(folder: Path, text: str, seconds: int) -> float:
    """Commits a second of one such text each, by SQLite alone with the settings of the store: what the disk allows."""
    connection = sqlite3.connect(folder / "plain.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE plain (id INTEGER PRIMARY KEY, text TEXT)")
    done, until = 0, time.perf_counter() + seconds
    while time.perf_counter() < until:
        connection.execute("INSERT INTO plain (text) VALUES (?)", (text,))
        done += 1
    connection.close()
    return done / seconds


def in_turn(
    asked: Run, name: str, pair: tuple[Served, Served], load: Load, folder: Path, seconds: int, rounds: int
) -> tuple[Rate, Rate]:
    """The medians of ours and of the bare app, the rounds in turn; how far ours spread is said."""
    ours, rival = [], []
    for served in pair:
        wrk(served, load, folder, 1)
    for _ in range(rounds):
        ours.append(wrk(pair[0], load, folder, seconds))
        rival.append(wrk(pair[1], load, folder, seconds))
    spread = [
        f"{min(r.per_second for r in rates):.0f} to {max(r.per_second for r in rates):.0f}" for rates in (ours, rival)
    ]
    asked.say(f"{name}: {spread[0]} a second, bare {spread[1]}")
    return median(ours), median(rival)


def median(rates: list[Rate]) -> Rate:
    return Rate(*(statistics.median(each) for each in zip(*map(astuple, rates), strict=True)))


def new(served: Served, folder: Path, body: str, prefix: str, connections: int, seconds: int) -> Rate:
    return wrk(served, Load("/", _NEW, body, 1, connections), folder, seconds, prefix)


def wrk(served: Served, load: Load, folder: Path, seconds: int, prefix: str = "") -> Rate:
    command = ["wrk", f"-t{load.threads}", f"-c{load.connections}", f"-d{seconds}s", "--timeout", "10s", "--latency"]
    environment = {"BENCH_BODY": str(folder / "body.json"), "BENCH_PREFIX": prefix}
    if load.script:
        (folder / "body.json").write_text(load.body, "utf-8")
        (folder / "load.lua").write_text(load.script, "utf-8")
        command += ["-s", str(folder / "load.lua")]
    before, started = tree_seconds(served.process.pid), time.perf_counter()
    done = subprocess.run(
        [*command, served.url + load.path], capture_output=True, text=True, env=environment, check=False
    )
    spent = tree_seconds(served.process.pid) - before
    requests = re.search(r"(\d+) requests in", done.stdout)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    slow = re.search(r"\n\s+99%\s+([\d.]+)(us|ms|s)\n", done.stdout)
    if not requests or not rate or not slow or "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise RuntimeError(f"wrk after {time.perf_counter() - started:.0f} s: {done.stdout}{done.stderr}")
    cpu = spent / max(int(requests[1]), 1) * 1e6
    return Rate(float(rate[1]), cpu, float(slow[1]) * _UNITS[slow[2]])


@contextmanager
def registry(folder: Path) -> Iterator[Served]:
    """The service as it is started by people, its store in `folder`."""
    url = f"sqlite:///{folder / 'registry.db'}"
    with process("service", "serve", "--port", "0", "--store", url) as served:
        yield served


@contextmanager
def bare_app(folder: Path, answer: bytes) -> Iterator[Served]:
    (folder / "answer").write_bytes(answer)
    with process("benchmarks.bare", str(folder / "answer")) as served:
        yield served


@contextmanager
def process(module: str, *arguments: str) -> Iterator[Served]:
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as started:
        try:
            assert started.stderr is not None
            said = []
            for line in started.stderr:
                said.append(line)
                found = re.search(r"listening on (http://\S+)", line)
                if found:
                    yield Served(started, found[1])
                    return
            raise RuntimeError(f"{module} did not start: {''.join(said)}")
        finally:
            started.terminate()
            started.communicate()


def schema(number: Any, size: int = 0) -> str:
    """The Avro schema of a table of 60 columns as TiCDC writes it; `size`: at least so many characters, of doc."""
    kinds: tuple[tuple[str, dict[str, Any]], ...] = (
        ("BIGINT", {"type": "long"}),
        ("TEXT", {"type": "string"}),
        ("INT", {"type": "int"}),
        ("DOUBLE", {"type": "double"}),
        ("BLOB", {"type": "bytes"}),
    )
    fields: list[dict[str, Any]] = []
    for index in range(COLUMNS):
        tidb, kind = kinds[index % len(kinds)]
        type_ = {**kind, "connect.parameters": {"tidb_type": tidb}}
        fields.append({"name": f"column_{index}", "type": ["null", type_], "default": None})
    value = {"type": "record", "name": f"table_{number}", "namespace": "default.shop", "fields": fields}
    text = json.dumps(value, separators=(",", ":"))
    if len(text) < size:
        fields[0]["doc"] = "x" * (size - len(text) - len(',"doc":""'))
        text = json.dumps(value, separators=(",", ":"))
    return text


def fill(served: Served, count: int, prefix: str) -> None:
    """Register `count` schemas, each in a subject of its own."""

    def some(first: int) -> None:
        connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=60)
        for number in range(first, count, WRITERS):
            body = json.dumps({"schema": schema(f"{prefix}_{number}")})
            connection.request("POST", f"/subjects/{prefix}-{number}/versions", body)
            answer = connection.getresponse()
            if answer.read() and answer.status != http.HTTPStatus.OK:
                raise RuntimeError(f"a registration was answered {answer.status}")
        connection.close()

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(some, range(WRITERS)))


def register(served: Served, subject: str, text: str) -> None:
    ask(served.url, "POST", f"/subjects/{subject}/versions", json.dumps({"schema": text}))


def ask(url: str, method: str, path: str, body: str | None) -> bytes:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.request(method, path, body)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise RuntimeError(f"{method} {path} was answered {answer.status}: {data[:200]!r}")
    return data
