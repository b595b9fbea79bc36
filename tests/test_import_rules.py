"""Each folder of the packages has its place in a layer contract of pyproject.toml."""

import tomllib
from collections.abc import Iterator

from tests.support.golden import ROOT

RULES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]


def containers() -> Iterator[str]:
    """Packages that have packages."""
    for root in RULES["root_packages"]:
        yield root
        for folder in ("schemas", "service", "spark_jobs", f"{root}/cli", f"{root}/clients"):
            for file in sorted((ROOT / folder).rglob("*/__init__.py")):
                parts = file.parent.parent.relative_to(ROOT).parts
                yield ".".join(parts if parts[0] == root else (root, *parts))


def test_a_new_folder_has_to_be_placed() -> None:
    """Where folders lie, an exhaustive contract names them all; lint-imports checks the names."""
    exhaustive = {
        container for rule in RULES["contracts"] if rule.get("exhaustive") for container in rule["containers"]
    }
    inner = set(containers())
    assert len(inner) > 10
    assert sorted(inner - exhaustive) == [], "no layer contract of pyproject.toml has exhaustive = true for these"
