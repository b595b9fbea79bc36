"""The clients in Node and Go are pinned by hash, and no pin names an address."""

import json
from pathlib import Path

CLIENTS = Path(__file__).parents[1] / "service" / "clients"


def test_the_pins_are_hashes_and_name_no_address() -> None:
    text = (CLIENTS / "node" / "package-lock.json").read_text()
    assert "://" not in text
    packages = {name: package for name, package in json.loads(text)["packages"].items() if name}
    assert packages
    assert all(
        package["integrity"].startswith("sha512-") and "resolved" not in package for package in packages.values()
    )
    assert all(line.split()[2].startswith("h1:") for line in (CLIENTS / "go" / "go.sum").read_text().splitlines())
