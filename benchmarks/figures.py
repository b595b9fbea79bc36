"""Figures: what a benchmark measured, beside a rival where there is one, and how they are printed."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

Better = Literal["less", "more"]
HEADER = ("name", "value", "unit", "rival's value", "ratio", "target", "verdict")


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value.

    better: whether a smaller or a larger value is the better one. rival: the same figure of what it is compared with.
    target: the ratio to reach, None where none was set. note: what has to be known to read it.
    """

    name: str
    value: float
    unit: str
    better: Better
    rival: float | None = None
    target: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times better than the rival: 2 is twice as good, 0.5 half as good, whatever the unit."""
        if self.rival is None or not self.value or not self.rival:
            return None
        return self.rival / self.value if self.better == "less" else self.value / self.rival

    @property
    def verdict(self) -> str:
        """ "short" where the target is missed; "ok" otherwise, also without a target."""
        return "ok" if self.target is None or (self.ratio or 0) >= self.target else "short"

    def line(self) -> str:
        """The figure as a tab-separated line; `-` stands for what it lacks."""
        optional = (_number(n) for n in (self.rival, self.ratio, self.target))
        return "\t".join((self.name, _number(self.value), self.unit, *optional, self.verdict))

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "verdict": self.verdict}


def _number(number: float | None) -> str:
    if number is None:
        return "-"
    return f"{number:.0f}" if abs(number) >= 1000 else f"{number:.3g}"


@dataclass(frozen=True, slots=True)
class Run:
    """How a benchmark is asked to run. rows: None for the benchmark's own number. say: progress, for people."""

    quick: bool
    rows: int | None
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A row of the registry. `run` yields figures as they are known; what it can't measure rightly it raises."""

    name: str
    what: str
    run: Callable[[Run], Iterator[Figure]]
