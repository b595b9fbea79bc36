"""Logs of the service: access and errors, without the credentials of URLs and headers."""

import json
import logging
import sys
import time
from contextvars import ContextVar
from typing import Any, Final

from ticdc_bridge.schemas.model.credentials import mask_credentials

REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""Set for the time of a request; threads that work for it inherit it."""

ACCESS: Final = logging.getLogger("service.access")
_LOG: Final = logging.getLogger("service")
_EXTRA: Final = ("method", "path", "status", "ms")


class JsonLines(logging.Formatter):
    """`{"ts","level","logger","message","request_id"?, "method"?, "path"?, "status"?, "ms"?, "error"?}`; ts is UTC."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(), "logger": record.name, "message": mask_credentials(record.getMessage()),
        }  # fmt: skip
        request_id = REQUEST_ID.get()
        if request_id is not None:
            line["request_id"] = request_id
        line |= {name: getattr(record, name) for name in _EXTRA if hasattr(record, name)}
        if record.exc_info:
            line["error"] = mask_credentials(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """`ticdc-bridge: level: message (request ID)`."""

    def format(self, record: logging.LogRecord) -> str:
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        request_id = REQUEST_ID.get()
        request = "" if request_id is None else f" (request {request_id})"
        text = f"ticdc-bridge: {level}{record.getMessage()}{request}"
        return mask_credentials(f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text)


FORMATS: Final = {"text": TextLines, "json": JsonLines}


def configure(log_format: str, level: str) -> None:
    """Send everything that is logged to stderr in one of FORMATS; `level` is for our own loggers."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATS[log_format]())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("service").setLevel(level.upper())


def print_line(text: str) -> None:
    """Say something on stderr, whatever the log level is."""
    _LOG.handle(_LOG.makeRecord(_LOG.name, logging.INFO, "", 0, text, (), None))


def log_access(method: str, path: str, status: int, seconds: float) -> None:
    """One line a request; the path as it was sent, without its query."""
    ms = round(seconds * 1000, 3)
    ACCESS.info(
        "%s %s %d %s ms", method, path, status, ms, extra=dict(zip(_EXTRA, (method, path, status, ms), strict=True))
    )
