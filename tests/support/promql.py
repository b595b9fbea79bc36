"""Prometheus' query language, as far as rules and dashboards use it: which series an expression asks for.

Grammar: https://prometheus.io/docs/prometheus/latest/querying/basics/ and …/operators/. No subqueries, no `@`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

Labels = frozenset[str]
Series = Mapping[str, Labels]
"""The labels of each series, by its name (`…_total`, `…_bucket`)."""

TARGET: Final = frozenset(("job", "instance"))
"""Labels that Prometheus itself gives to each series it scrapes."""
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')|(?P<window>\[(?:\d+(?:ms|[smhdwy])|\$__\w+)\])"
    r"|(?P<number>\d+(?:\.\d+)?(?:ms|[smhdwy])?\b)|(?P<name>[A-Za-z_:][\w:]*)|(?P<sign>=~|!~|!=|==|<=|>=|[-+*/%^(){},=<>]))"
)
_AGGREGATIONS: Final = frozenset("sum min max avg count group stddev stdvar topk bottomk quantile count_values".split())
_OF_RANGES: Final = frozenset("rate increase irate delta idelta deriv changes resets absent_over_time".split()) | {
    f"{name}_over_time" for name in ("avg", "min", "max", "sum", "count", "quantile", "last")
}
_OF_INSTANTS: Final = frozenset("histogram_quantile time abs ceil floor clamp_min clamp_max round absent".split())
_OPERATORS: Final = tuple(one.split() for one in ("or", "and unless", "== != <= >= < >", "+ -", "* / %", "^"))
"""Those that bind least first."""
_MATCHES: Final = ("=", "!=", "=~", "!~")


def labels_of(expression: str, series: Series) -> Labels:
    """The labels that the result may have.

    ValueError for what Prometheus would refuse, and for a series or a label that is not in `series`.
    """
    reader = _Expression(expression, series)
    labels, window = reader.read()
    if window or reader.peek():
        raise ValueError(f"{expression}: {reader.peek() or 'a range'} at its end")
    return labels


class _Expression:
    def __init__(self, text: str, series: Series) -> None:
        self._text, self._series = text, series
        self._tokens: list[tuple[str, str]] = []
        place = 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            if match is None:
                raise ValueError(f"{text}: can't be read at {text[place:]!r}")
            self._tokens.append((match.lastgroup or "", match[match.lastgroup or 0]))
            place = match.end()

    def peek(self) -> str:
        return self._tokens[0][1] if self._tokens else ""

    def take(self, *wanted: str) -> str:
        """The next token, which is one of these words or of these kinds."""
        kind, token = self._tokens.pop(0) if self._tokens else ("", "the end")
        if wanted and token not in wanted and kind not in wanted:
            raise ValueError(f"{self._text}: {token} in place of {' or '.join(wanted)}")
        return token

    def read(self, level: int = 0) -> tuple[Labels, bool]:
        """The labels of a part, and whether it is a range."""
        if level == len(_OPERATORS):
            return self._read_operand()
        labels, window = self.read(level + 1)
        while self.peek() in _OPERATORS[level]:
            operator = self.take()
            if self.peek() == "bool":
                self.take()
            if self.peek() in ("on", "ignoring"):
                self.take()
                self._check_names(self._read_names(), labels)
            if self.peek() in ("group_left", "group_right"):
                self.take()
                self._read_names()
            other, of_other = self.read(level + 1)
            if window or of_other:
                raise ValueError(f"{self._text}: {operator} of a range")
            labels |= other
        return labels, window

    def _read_operand(self) -> tuple[Labels, bool]:
        if self.peek() == "-":
            self.take()
        if self.peek() == "(":
            return self._read_arguments()[0]
        name = self.take("name", "number", "text", "{") if self.peek() != "{" else ""
        if name in _AGGREGATIONS:
            return self._read_aggregation(), False
        if name in _OF_RANGES | _OF_INSTANTS:
            arguments = self._read_arguments()
            if (name in _OF_RANGES) != any(window for _, window in arguments):
                raise ValueError(f"{self._text}: {name} takes {'a range' if name in _OF_RANGES else 'no range'}")
            labels = frozenset[str]().union(*(labels for labels, _ in arguments))
            if name == "histogram_quantile":
                if "le" not in labels:
                    raise ValueError(f"{self._text}: histogram_quantile of what has no le")
                labels -= {"le"}
            return labels, False
        if re.match(r"[\d\"']", name):
            return frozenset(), False
        return self._read_series(name)

    def _read_arguments(self) -> list[tuple[Labels, bool]]:
        arguments: list[tuple[Labels, bool]] = []
        self.take("(")
        while self.peek() != ")":
            arguments.append(self.read())
            if self.peek() != ")":
                self.take(",")
        self.take(")")
        return arguments

    def _read_aggregation(self) -> Labels:
        grouping = self._read_grouping()
        inner = self._read_arguments()
        word, names = grouping if grouping[0] else self._read_grouping()
        if any(window for _, window in inner):
            raise ValueError(f"{self._text}: an aggregation of a range")
        labels = frozenset[str]().union(*(labels for labels, _ in inner))
        self._check_names(names, labels)
        return labels - names if word == "without" else names

    def _read_grouping(self) -> tuple[str, Labels]:
        if self.peek() not in ("by", "without"):
            return "", frozenset()
        return self.take(), self._read_names()

    def _read_names(self) -> Labels:
        names = set[str]()
        self.take("(")
        while self.peek() != ")":
            names.add(self.take("name"))
            if self.peek() != ")":
                self.take(",")
        self.take(")")
        return frozenset(names)

    def _check_names(self, names: Labels, labels: Labels) -> None:
        if not names <= labels:
            raise ValueError(f"{self._text}: no label {', '.join(sorted(names - labels))}")

    def _read_series(self, name: str) -> tuple[Labels, bool]:
        if name not in self._series:
            raise ValueError(f"{self._text}: nothing exposes {name}")
        labels = self._series[name] | TARGET
        if self.peek() == "{":
            self.take()
            while self.peek() != "}":
                self._check_names(frozenset((self.take("name"),)), labels)
                operator, value = self.take(*_MATCHES), self.take("text")
                if "~" in operator:
                    re.compile(re.sub(r"\$\w+", "x", value[1:-1]))
                if self.peek() != "}":
                    self.take(",")
            self.take("}")
        window = self._tokens[:1] != [] and self._tokens[0][0] == "window"
        if window:
            self.take()
        if self.peek() == "offset":
            self.take()
            self.take("number")
        return labels, window
