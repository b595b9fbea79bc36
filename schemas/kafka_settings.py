"""Settings of a Kafka client as commands take them; the client itself is not made here."""

from __future__ import annotations

import os
from pathlib import Path

from schemas.errors import SetupError


def client_settings(servers: str | None, config_file: Path | None, what: str = "Kafka") -> dict[str, str]:
    """librdkafka settings from --bootstrap-servers (or BRIDGE_BOOTSTRAP_SERVERS) and a properties file.

    SetupError USAGE when there are no servers (`what` needs them) or the file can't be read.
    """
    settings: dict[str, str] = {}
    if config_file is not None:
        try:
            lines = config_file.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise SetupError("USAGE", details=f"--kafka-config {config_file}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise SetupError("USAGE", details=f"--kafka-config {config_file}: not UTF-8 text") from error
        for number, line in enumerate(lines, 1):
            if line.strip() and not line.lstrip().startswith("#"):
                name, equals, value = line.partition("=")
                if not equals:
                    raise SetupError("USAGE", details=f"--kafka-config {config_file}:{number}: name=value is needed")
                settings[name.strip()] = value.strip()
    servers = servers or settings.get("bootstrap.servers") or os.environ.get("BRIDGE_BOOTSTRAP_SERVERS")
    if not servers:
        details = f"{what} needs --bootstrap-servers HOST:PORT (or BRIDGE_BOOTSTRAP_SERVERS)"
        raise SetupError("USAGE", details=details)
    return {**settings, "bootstrap.servers": servers}
