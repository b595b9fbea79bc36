"""Any text has a verdict or is wrong usage, in bounded time."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.dry_runs import ask, feed, one
from tests.support.each import each
from tests.support.service import short_and_long
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.ddl_check.report import REFUSED, SAFE, STOP, UNKNOWN


@short_and_long(30, 150)
def test_any_text_has_a_verdict_or_is_wrong_usage(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(st.text(max_size=120))
    def holds(tail: str) -> None:
        for sql in (tail, "ALTER TABLE orders " + tail, "ALTER TABLE orders ADD c INT NOT NULL DEFAULT '" + tail):
            try:
                form = one(sql)
            except SetupError as error:
                assert error.code == "USAGE"  # noqa: PT017
            else:
                json.dumps(form)
                assert form["verdict"] in (SAFE, STOP, UNKNOWN, REFUSED)

    holds()


HOSTILE_SIZES = {
    "nested": "ALTER TABLE orders ADD c INT DEFAULT " + "(" * 20_000, "long": "A" * 5_000_000, "quotes": "'" * 99_999,
    "comments": "/*" * 50_000, "columns": "ALTER TABLE orders " + ", ".join(f"ADD c{i} INT" for i in range(5000)),
    "zeros": "\x00" * 1000,
}  # fmt: skip


@each("name", HOSTILE_SIZES)
def test_hostile_sizes(name: str) -> None:
    try:
        assert one(HOSTILE_SIZES[name])["verdict"] == UNKNOWN
    except SetupError as error:
        assert error.code == "USAGE"  # noqa: PT017


def test_too_many_statements_are_refused() -> None:
    with pytest.raises(SetupError, match="more than 1000 statements"):
        ask("SELECT 1;" * 1100)


def test_too_much_work_is_refused() -> None:
    with pytest.raises(SetupError, match="60000 columns in all"):
        ask("".join(f"ALTER TABLE orders ADD c{i} INT;" for i in range(260)), settings_=feed("canal-json", ""))
