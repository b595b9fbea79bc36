"""The Open Protocol by command line: the same bytes, the changefeed's zone, claim-check files."""

import json
from pathlib import Path

import pytest

from tests.support.golden import Golden, case_check
from ticdc_bridge.cli import main
from ticdc_bridge.spark_jobs.io.message_files import read_messages


@pytest.mark.parametrize("golden", [Golden("open", "wide.default"), Golden("open-tiflow", "wide.default")], ids=str)
def test_the_same_bytes_are_written_with_a_metas_options(golden: Golden, tmp_path: Path) -> None:
    out = tmp_path / "o.jsonl"
    argv = ["transcode", "--from", golden.format, "--to", golden.format, "--in", str(golden.messages_file)]
    assert main([*argv, "--options", str(golden.meta_file), "--out", str(out)]) == 0
    assert list(read_messages(out)) == golden.messages()


def test_claim_checks_are_dead_letters_without_their_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = Golden("open", "large.claimcheck")
    dead = tmp_path / "dead.jsonl"
    argv = ["decode", "--format", "open", "--in", str(golden.messages_file), "--ddl", str(golden.meta_file)]
    folder = golden.messages_file.with_suffix(".files")
    assert main([*argv, "--dead-letter", str(dead)]) == 1
    codes = [json.loads(line).get("code") for line in capsys.readouterr().out.splitlines()]
    assert codes == [None, "CLAIM_CHECK", "CLAIM_CHECK", "CLAIM_CHECK", None]
    assert len(dead.read_text().splitlines()) == 3
    assert main([*argv, "--claim-check-dir", str(folder)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    score = case_check(golden).check(lines)
    assert (score.differences, score.excused) == ([], {})
    assert main([*argv, "--claim-check-dir", str(folder / "nope")]) == 2
    assert "there is no such folder" in capsys.readouterr().err
