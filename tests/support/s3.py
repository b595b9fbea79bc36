"""A real S3 server of this machine (moto), and what is in a bucket of it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}


class Bucket:
    """A bucket of a server; what is stored in it, by key."""

    def __init__(self, client: Any, name: str) -> None:
        self._client, self.name = client, name

    def put_folder(self, folder: Path, key: str) -> None:
        for path in folder.rglob("*"):
            if path.is_file():
                self.put(f"{key}/{path.relative_to(folder)}", path.read_bytes())

    def put(self, key: str, data: bytes) -> None:
        self._client.put_object(Bucket=self.name, Key=key, Body=data)

    def get(self, key: str) -> bytes:
        data: bytes = self._client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return data

    def keys(self, prefix: str = "") -> list[str]:
        """Keys of objects below a prefix, without it; no markers of folders."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        return [key.removeprefix(prefix) for key in keys if not key.endswith("/")]


@contextmanager
def s3_server() -> Iterator[tuple[str, Bucket]]:
    """(the server's URL, a bucket `lake` of it). Nobody else's settings are read: the caller sets KEYS and the URL."""
    import boto3  # type: ignore[import-untyped]
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    try:
        client = boto3.client(
            "s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
        )
        client.create_bucket(Bucket="lake")
        yield url, Bucket(client, "lake")
    finally:
        server.stop()
