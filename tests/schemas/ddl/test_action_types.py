"""TiDB's ActionType of each statement that reached the wire is the number that stands beside it."""

from tests.support.ddl_histories import FILES, recorded
from ticdc_bridge.schemas.ddl.parser.action_types import action_type, ddl_type_of
from ticdc_bridge.schemas.ddl.parser.lexer import WIRE
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.model.event import DdlEvent


def test_numbers_are_those_on_the_wire() -> None:
    reported = unknown = 0
    for name in FILES:
        for entry in (w for line in recorded(name) for w in line["wire"]):
            found = action_type(parse(entry["q"], WIRE, entry["scm"]))
            # ADD PARTITION and REORGANIZE PARTITION of a hash table share their numbers with other statements.
            assert found in (entry["t"], None), entry["q"]
            reported += found is not None
            unknown += found is None
    assert reported > 1400
    assert unknown < 40


def test_an_event_has_its_own_number_or_its_statements() -> None:
    event = DdlEvent("debezium", "d", "t", 1, None, "ALTER TABLE `t` ADD COLUMN `a` INT")
    assert ddl_type_of(event) == 5
    assert ddl_type_of(DdlEvent("open", "d", "t", 1, 12, event.query)) == 12
    assert ddl_type_of(DdlEvent("debezium", "d", "t", 1, None, "ALTER TABLE `t` FROB")) is None
    assert ddl_type_of(DdlEvent("debezium", "d", "t", 1, None, "")) is None
