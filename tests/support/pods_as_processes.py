"""So much of Kubernetes' API that Spark's driver gets executors from it; a pod is a process of this machine.

Pods are kept and listed, config maps are taken; nothing is scheduled or isolated.
"""

import json
import os
import shutil
import subprocess
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

_ENDED = {True: "Succeeded", False: "Failed"}


class Pods:
    """The pods of a namespace, and their processes."""

    def __init__(self, folder: Path, files: Mapping[str, str], environment: Mapping[str, str]) -> None:
        """folder: where processes run and log; files: paths in a pod → paths here; environment: of the pods' image."""
        self._folder, self._files, self._environment = folder, dict(files), dict(environment)
        self.pods: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, str]] = []
        """(method, kind) of each request."""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def add(self, pod: dict[str, Any], start: bool = True) -> dict[str, Any]:
        """Keeps a pod as the API gives it, and starts its container."""
        name = pod["metadata"]["name"]
        pod["metadata"] |= {"uid": str(uuid.uuid4()), "namespace": "ticdc-bridge", "resourceVersion": "1"}
        pod["status"] = {"phase": "Running", "podIP": "127.0.0.1"}
        self.pods[name] = pod
        if start:
            self._processes[name] = self._start(name, pod["spec"]["containers"][0])
        return pod

    def _start(self, name: str, container: dict[str, Any]) -> subprocess.Popen[bytes]:
        fields = {"status.podIP": "127.0.0.1", "metadata.name": name}
        given = {
            entry["name"]: entry.get("value") or fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
            for entry in container["env"]
            if "value" in entry or "valueFrom" in entry
        }
        words = [self._files.get(word, word) for word in (*container["command"], *container["args"])]
        if words[0] == "tini" and shutil.which("tini") is None:
            words = words[2:]
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                words, cwd=self._folder, env={**self._environment, **given}, stdout=log, stderr=subprocess.STDOUT
            )

    @property
    def started(self) -> list[str]:
        return [*self._processes]

    def listed(self) -> dict[str, Any]:
        for name, process in self._processes.items():
            if name in self.pods and (code := process.poll()) is not None:
                self.pods[name]["status"]["phase"] = _ENDED[code == 0]
        return {
            "apiVersion": "v1",
            "kind": "PodList",
            "metadata": {"resourceVersion": "1"},
            "items": [*self.pods.values()],
        }

    def delete(self, name: str) -> None:
        self.pods.pop(name, None)
        if (process := self._processes.pop(name, None)) is not None:
            process.terminate()
            process.wait(30)

    @property
    def logs(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-4000:] for path in sorted(self._folder.glob("*.log")))


def _handler(pods: Pods) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *arguments: Any) -> None:
            if os.environ.get("TRACE_PODS"):
                print(self.requestline, arguments, flush=True)

        def _answer(self, status: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _body(self) -> Any:
            return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")

        def _place(self) -> tuple[str, str]:
            """Kind and name in the path; the request is noted."""
            kind, name = (*urlsplit(self.path).path.split("/")[5:], "", "")[:2]
            pods.asked.append((self.command, kind))
            return kind, name

        def do_GET(self) -> None:
            kind, name = self._place()
            if kind == "pods" and name:
                self._answer(200, pods.pods[name]) if name in pods.pods else self._answer(404, {"kind": "Status"})
            elif kind == "pods" and "watch" not in parse_qs(urlsplit(self.path).query):
                self._answer(200, pods.listed())
            else:  # a watch that sees nothing: Spark lists pods too
                self._answer(200, {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": []})

        def do_POST(self) -> None:
            body = self._body()
            kind, _ = self._place()
            self._answer(201, pods.add(body) if kind == "pods" else body)

        def do_PATCH(self) -> None:
            self._body()
            _, name = self._place()
            self._answer(200, pods.pods.get(name, {"kind": "Status"}))

        do_PUT = do_PATCH

        def do_DELETE(self) -> None:
            self._body()
            kind, name = self._place()
            if kind == "pods":
                for entry in [name] if name else [*pods.started]:
                    pods.delete(entry)
            self._answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

    return Handler


@contextmanager
def serve_pods(pods: Pods) -> Iterator[str]:
    """The API's URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(pods)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            for name in [*pods.pods]:
                pods.delete(name)
            server.shutdown()
