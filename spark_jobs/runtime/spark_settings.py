"""What a command gives Spark beside its work: --master, --conf, --packages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ticdc_bridge.schemas.model.errors import SetupError

LISTS = ("spark.jars", "spark.jars.packages", "spark.sql.extensions", "spark.files", "spark.submit.pyFiles")
"""Settings that are comma lists: what two sides give is joined."""
PACKAGES = "spark.jars.packages"

_COORDINATES = re.compile(r"[^\s:,]+:[^\s:,]+:[^\s:,]+")


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """master: None for the default. conf: Spark's settings by name, which win over ours. packages: G:A:V each.

    locations: what the job reads and writes, whose stores Spark needs settings and jars for.
    """

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    locations: tuple[str, ...] = ()

    @classmethod
    def of(cls, master: str | None, conf: Iterable[str] = (), packages: Iterable[str] = ()) -> SparkSettings:
        """conf: KEY=VALUE each; packages: comma lists of G:A:V. SetupError USAGE for anything else."""
        pairs: dict[str, str] = {}
        for text in conf:
            name, equals, value = text.partition("=")
            name = name.strip()
            if not equals or not name:
                raise SetupError("USAGE", details=f"--conf {name}: KEY=VALUE is needed")
            if not name.startswith("spark."):
                advice = f"Spark's settings begin with spark. (one of Hadoop is spark.hadoop.{name})"
                raise SetupError("USAGE", details=f"--conf {name}: {advice}")
            pairs[name] = value
        coordinates = tuple(word.strip() for text in packages for word in text.split(",") if word.strip())
        for coordinate in coordinates:
            if not _COORDINATES.fullmatch(coordinate):
                raise SetupError("USAGE", details=f"--packages {coordinate}: GROUP:ARTIFACT:VERSION is needed")
        return cls(master, pairs, coordinates)

    def over(self, defaults: Mapping[str, str]) -> SparkSettings:
        """These settings with defaults below them: of a setting that both have these win, comma lists are joined."""
        both = [name for name in LISTS if name in defaults and name in self.conf]
        joined = {name: join_lists(defaults[name], self.conf[name]) for name in both}
        return replace(self, conf={**defaults, **self.conf, **joined})

    @property
    def artifacts(self) -> frozenset[str]:
        """The artifacts that the user brings by --packages or --conf spark.jars.packages, by their names."""
        coordinates = [*self.packages, *self.conf.get(PACKAGES, "").split(",")]
        return frozenset(entry.split(":")[1] for entry in coordinates if _COORDINATES.fullmatch(entry.strip()))


def join_lists(*lists: str) -> str:
    """Comma lists as one, without repetitions."""
    return ",".join(dict.fromkeys(word.strip() for text in lists for word in text.split(",") if word.strip()))


DEFAULT = SparkSettings()
