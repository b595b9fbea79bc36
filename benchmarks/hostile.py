"""Hostile messages of 1 MiB: the CPU seconds of the slowest, per decoder. No message may hang one for a second.

The messages are those of the tests (tests/support/hostile.py), each read in this process by a decoder that has read
good ones. A message that is more when it is inflated counts as what it is inflated: CPU per MiB of that.
"""

from collections.abc import Iterator

from benchmarks.figures import Figure, Run
from tests.support.hostile import MIB, outcomes
from ticdc_bridge.schemas.formats.format_table import FORMATS

MOST_SECONDS = 1.0
ROUNDS = 3


def run(asked: Run) -> Iterator[Figure]:
    """A figure a format: seconds of the slowest message, the best of a few rounds; the rival is the bound."""
    for format_ in FORMATS:
        best: dict[str, float] = {}
        for number in range(1 if asked.quick else ROUNDS):
            for outcome in outcomes(format_, MIB):
                if outcome.outcome not in outcome.expected:
                    raise RuntimeError(
                        f"{format_}, {outcome.name}: {outcome.outcome}, expected {' or '.join(outcome.expected)}"
                    )
                per_mib = outcome.cpu / max(1.0, outcome.size / MIB)
                best[outcome.name] = min(best.get(outcome.name, per_mib), per_mib)
            asked.say(f"{format_}: {len(best)} messages, round {number + 1}")
        slowest = max(best, key=lambda name: best[name])
        note = f"{len(best)} messages; slowest: {slowest}; the rival's value is the bound"
        yield Figure(f"hostile.{format_}.slowest", best[slowest], "CPU s/MiB", "less", MOST_SECONDS, 1.0, note)
