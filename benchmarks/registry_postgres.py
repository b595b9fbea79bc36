"""New schemas and known ones with the store in a real PostgreSQL, beside the same requests with SQLite.

The server is that of the tests, with fsync on, on the same machine and the same disk.
"""

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import psycopg

from benchmarks.figures import Figure, Run
from benchmarks.registry import _POST, WRITERS, Load, Rate, Served, median, new, process, register, schema, wrk
from tests.support.postgres import Postgres


def run(asked: Run) -> Iterator[Figure]:
    """Figures in requests a second. RuntimeError where wrk is missing or an answer was not 200."""
    seconds, rounds = (2, 3) if asked.quick else (3, 5)
    with tempfile.TemporaryDirectory() as name, Postgres(fsync=True) as server, ExitStack() as held:
        folder, url = Path(name), server.database()
        ours = held.enter_context(served(url))
        plain = held.enter_context(served(f"sqlite:///{folder / 'registry.db'}"))
        body = json.dumps({"schema": schema("NUMBER")})
        bare = commits(server.database(), schema(0), seconds)
        for writers in (1, WRITERS):
            asked.say(f"new schemas, {writers} writers")
            rates: dict[str, list[Rate]] = {"pg": [], "sqlite": []}
            for turn in range(rounds):
                rates["pg"].append(new(ours, folder, body, f"w{writers}t{turn}n", writers, seconds))
                rates["sqlite"].append(new(plain, folder, body, f"w{writers}t{turn}n", writers, seconds))
            pg, sqlite = median(rates["pg"]), median(rates["sqlite"])
            what = f"registry.postgresql.new.{writers}-writers"
            yield Figure(what, pg.per_second, "schemas/s", "more", sqlite.per_second, note="the rival is SQLite")
            yield Figure(f"{what}.cpu", pg.cpu, "us/schema", "less", sqlite.cpu, note="of the service alone")
            if writers == 1:
                note = "the rival is one INSERT and COMMIT of such a text by psycopg"
                yield Figure(f"{what}.against-psycopg", pg.per_second, "schemas/s", "more", bare, note=note)
        known = schema(1)
        posted = json.dumps({"schema": known})
        for entry in (ours, plain):
            register(entry, "known", known)
        loads = (("look-up", Load("/subjects/known", _POST, posted)), ("by-id", Load("/schemas/ids/1")))
        for name, load in loads:
            asked.say(name)
            pg, sqlite = (median([wrk(at, load, folder, seconds) for _ in range(rounds)]) for at in (ours, plain))
            what = f"registry.postgresql.{name}"
            yield Figure(what, pg.per_second, "requests/s", "more", sqlite.per_second, note="the rival is SQLite")


def served(store: str) -> AbstractContextManager[Served]:
    """The service as it is started by people."""
    return process("service", "serve", "--port", "0", "--store", store)


def commits(url: str, text: str, seconds: int) -> float:
    """Commits a second of one such text each, one after the other: what the server and the disk allow."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE plain (id serial PRIMARY KEY, text text)")
        done, until = 0, time.perf_counter() + seconds
        while time.perf_counter() < until:
            connection.execute("INSERT INTO plain (text) VALUES (%s)", (text,))
            done += 1
    return done / seconds
