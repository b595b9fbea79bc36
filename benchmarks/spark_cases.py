"""Cases of one Spark session, run in turn, round after round: what else the machine does falls on all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.cpu import Spent, Stopwatch
from benchmarks.figures import Figure, Run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROUNDS, _QUICK_ROUNDS = 5, 3
_WARM_UPS, _QUICK_WARM_UPS = 5, 1  # HotSpot's compilers keep a core busy for most of the first minute


@dataclass(frozen=True, slots=True)
class Case:
    """A way to do the work, and what its runs took. frame: lazy, run anew each time."""

    name: str
    rows: int
    frame: DataFrame
    spent: list[Spent] = field(default_factory=list)

    def again(self) -> Case:
        """The same work, of which no run counts yet."""
        return Case(self.name, self.rows, self.frame)

    @property
    def micros(self) -> float:
        """CPU per row, the median of the runs."""
        return median(s.cpu / self.rows * 1e6 for s in self.spent)

    @property
    def rate(self) -> float:
        """Rows a second, the median of the runs."""
        return median(self.rows / s.wall for s in self.spent)


def spend(frame: DataFrame) -> Spent:
    """One run to the end: every column of every row is made, and thrown away."""
    with Stopwatch() as watch:
        frame.write.format("noop").mode("overwrite").save()
    return watch.spent


def turns(warm_ups: int, rounds: int) -> Iterator[tuple[str, bool]]:
    """Of a measurement: what each turn is called, and whether it counts."""
    yield from [("warm-up", False)] * warm_ups
    yield from ((f"round {number} of {rounds}", True) for number in range(1, rounds + 1))


def measure(cases: Sequence[Case], run: Run, plan: Iterable[tuple[str, bool]] | None = None) -> None:
    """Runs the cases in turn; what they took is in `spent`. plan: other turns than the usual ones."""
    usual = (_QUICK_WARM_UPS, _QUICK_ROUNDS) if run.quick else (_WARM_UPS, _ROUNDS)
    for kind, counts in plan or turns(*usual):
        for case in cases:
            spent = spend(case.frame)
            run.say(
                f"{kind}: {case.name} {case.rows / spent.wall:,.0f} rows/s, {spent.cpu / case.rows * 1e6:.2f} µs/row"
            )
            if counts:
                case.spent.append(spent)


def figures(prefix: str, cases: Sequence[Case]) -> Iterator[Figure]:
    """Rate and CPU per row of each case."""
    for case in cases:
        note = f"{case.rows} rows, median of {len(case.spent)}"
        yield Figure(f"{prefix}.{case.name}.rate", case.rate, "rows/s", "more", None, None, note)
        yield Figure(f"{prefix}.{case.name}.cpu", case.micros, "us/row", "less", None, None, note)


def ratio(prefix: str, case: Case, rival: Case, target: float | None) -> Figure:
    """CPU per row beside a rival's: the median of the rounds' ratios, as both fell on the same moments."""
    name = f"{prefix}.{case.name}.cpu-vs-{rival.name}"
    fewer = case.rows / rival.rows
    found = median(theirs.cpu * fewer / ours.cpu for ours, theirs in zip(case.spent, rival.spent, strict=True))
    note = f"{case.rows} rows, the median ratio of {len(case.spent)} rounds"
    return Figure(name, case.micros, "us/row", "less", case.micros * found, target, note)
