"""What the program says of itself, as digests: help, the API's description, who may do what, texts of errors."""

import io
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

from tests.support.access import ADMIN, InProcess, bearer, files, rule
from tests.support.command_line import commands
from tests.support.record_outputs import Row, digest
from tests.support.routes import routes
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.errors import ERRORS
from ticdc_bridge.service.auth.acl import OF_SERVER
from ticdc_bridge.service.errors import REGISTRY_ERRORS
from ticdc_bridge.service.server.app import create_app, wrap_served
from ticdc_bridge.service.server.settings import Settings

_RIGHTS = ("read", "write", "delete", "config", "history", "metrics", "admin")


def _help() -> Iterator[Row]:
    with mock.patch.dict(os.environ, {"COLUMNS": "100", "TERM": "dumb"}):
        for name in ["", *(name for name, _ in commands())]:
            with redirect_stdout(io.StringIO()) as out:
                assert main([*name.split(), "--help"]) == 0, name
            yield "help", name or "ticdc-bridge", digest(out.getvalue())


def _rights() -> Iterator[Row]:
    """Route × right → status and error code, of a request without a body."""
    users = {"known": "u", **dict.fromkeys(_RIGHTS, "u")}
    for right, user in users.items():
        where = {} if right in OF_SERVER else {"prefixes": [""]}
        acl = ADMIN + (rule([user], [right], **where) if right != "known" else "")
        with tempfile.TemporaryDirectory() as folder:
            settings = Settings(store=f"sqlite:///{folder}/registry.db", **files(Path(folder), acl))
            app = create_app(settings)
            client = InProcess(wrap_served(app, settings))
            for method, path, _ in routes(app.routes):
                asked = path.replace("{", "").replace("}", "")
                reply = client.send(method, asked, None, bearer(user))
                yield "rights", f"{method} {path} as {right}", _status(reply.status, reply.body)
                if right == "known":
                    nobody = client.send(method, asked)
                    yield "rights", f"{method} {path} as nobody", _status(nobody.status, nobody.body)
            client.close()


def _status(status: int, body: bytes) -> str:
    try:
        return f"{status} {json.loads(body).get('error_code', '')}".strip()
    except (ValueError, AttributeError):
        return str(status)


def record_program() -> Iterator[Row]:
    """Help of every command, /openapi.json, route × right → status, every text of an error."""
    yield from _help()
    with tempfile.TemporaryDirectory() as folder:
        described = create_app(Settings(store=f"sqlite:///{folder}/registry.db")).openapi()
    for path, methods in described["paths"].items():
        for method, description in methods.items():
            yield "openapi", f"{method} {path}", digest(json.dumps(description, sort_keys=True))
    yield (
        "openapi",
        "the rest",
        digest(json.dumps({k: v for k, v in described.items() if k != "paths"}, sort_keys=True)),
    )
    yield from _rights()
    for row in REGISTRY_ERRORS.values():
        yield "errors", row.code, digest(row.http, row.error_code, row.template)
    for code, template in ERRORS.items():
        yield "errors of jobs", code, digest(template)
