"""Two texts side by side: both are there whole, in order, whatever they are; and it ends."""

from hypothesis import given
from hypothesis import strategies as st

from ticdc_bridge.service.ui.subjects import in_two_columns

LINES = st.lists(st.sampled_from(["{", "},", "a", "b", ""]), max_size=12)


@given(LINES, LINES)
def test_both_sides_are_whole(left: list[str], right: list[str]) -> None:
    rows = in_two_columns("\n".join(left), "\n".join(right))
    for number, text, whole in (("left_number", "left", left), ("right_number", "right", right)):
        shown = [(getattr(row, number), getattr(row, text)) for row in rows if getattr(row, number) is not None]
        assert shown == list(enumerate("\n".join(whole).splitlines(), 1))
    assert all((row.left == row.right) == (row.kind == "same") for row in rows if row.left_number and row.right_number)


def test_a_line_that_is_new_is_found_among_repeated_ones() -> None:
    old = [f'{{"name": "c{n}"}}\n}},' for n in range(500)]
    new = [*old[:250], '{"name": "added"}\n},', *old[250:]]
    changed = [row for row in in_two_columns("\n".join(old), "\n".join(new)) if row.kind != "same"]
    assert {row.kind for row in changed} == {"new"}
    assert len(changed) == 2


def test_what_would_take_for_ever() -> None:
    """Every other line is the same one, and no two others are: difflib alone takes lines³ steps."""
    left, right = ("\n".join(line for n in range(4000) for line in ("x", f"{image}{n}")) for image in "yz")
    assert sum(row.kind == "changed" for row in in_two_columns(left, right)) >= 4000
    longer = in_two_columns("x\n" * 20_000, "x\n" * 20_001)
    assert len(longer) == 20_001
