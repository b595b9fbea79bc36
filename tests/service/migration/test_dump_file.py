"""Dump files: every form that is read, and that what is written is read again as it was."""

from pathlib import Path

from tests.service.migration.test_snapshot_and_plan import CONFLUENT, KARAPACE, replayed, rows, snapshot
from tests.support.each import each
from ticdc_bridge.service.migration.dump_file import line_of, read_records
from ticdc_bridge.service.migration.plan import fingerprint
from ticdc_bridge.service.migration.topic_records import records_of

LINES = {
    "ours": '{"key":{"keytype":"SCHEMA","subject":"s","version":1},"value":{"id":1,"schema":"\\"int\\""},'
    '"timestamp":5}',
    "texts": '{"key":"{\\"keytype\\":\\"SCHEMA\\",\\"subject\\":\\"s\\",\\"version\\":1}",'
    '"value":"{\\"id\\":1,\\"schema\\":\\"\\\\\\"int\\\\\\"\\"}"}',
    "console": '{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}\t{"id":1,"schema":"\\"int\\""}',
    "console with all": 'CreateTime:5\tPartition:0\tOffset:9\tNO_HEADERS\t{"keytype":"SCHEMA","subject":"s",'
    '"version":1,"magic":1}\t{"id":1,"schema":"\\"int\\""}',
    "offset": '9\t{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}\t{"id":1,"schema":"\\"int\\""}',
    "file of --schemas": '{"subject":"s","version":1,"id":1,"schema":"\\"int\\""}',
    "message file": '{"topic":"_schemas","partition":0,"offset":9,"timestamp":5,"key_b64":'
    '"eyJrZXl0eXBlIjoiU0NIRU1BIiwic3ViamVjdCI6InMiLCJ2ZXJzaW9uIjoxLCJtYWdpYyI6MX0=","value_b64":'
    '"eyJpZCI6MSwic2NoZW1hIjoiXCJpbnRcIiJ9"}',
}


@each("form", LINES)
def test_forms_of_dumps(tmp_path: Path, form: str) -> None:
    dump = tmp_path / "dump"
    dump.write_text(LINES[form] + "\n\n")
    (entry,) = read_records(str(dump))
    found = snapshot(entry)
    assert rows(found) == {("s", 1): (1, False, '"int"', None)}
    assert (entry.ts == 5) == ("5" in LINES[form].replace("75", ""))
    assert "line 1" in entry.where
    assert ("offset 9" in entry.where) == ("9" in LINES[form].partition("{")[0] or form == "message file")


@each("value", ["null", "<null>", ""])
def test_tombstones_in_dumps(tmp_path: Path, value: str) -> None:
    dump = tmp_path / "dump"
    dump.write_text(LINES["console"] + '\n{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}\t' + value)
    assert snapshot(*read_records(str(dump))).versions == {}


@each("line", ["x", '{"a":1}', "{", '{"key_b64":"?"}', "\udcff"])
def test_lines_that_are_none_are_broken_records(tmp_path: Path, line: str) -> None:
    dump = tmp_path / "dump"
    dump.write_bytes(line.encode("utf-8", "surrogateescape") + b"\n" + LINES["ours"].encode())
    done = replayed(*read_records(str(dump)))
    assert done.broken[0].startswith(f"{dump} line 1: ")
    assert len(done.snapshot.versions) == 1


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    for source in (CONFLUENT, KARAPACE):
        found = replayed(*read_records(str(source))).snapshot
        dump = tmp_path / source.name
        dump.write_text("".join(map(line_of, records_of(found))))
        again = replayed(*read_records(str(dump)))
        assert not again.broken
        assert fingerprint(again.snapshot) == fingerprint(found)
        assert {key: version.ts for key, version in again.snapshot.versions.items()} == {
            key: version.ts for key, version in found.versions.items()
        }


def test_keys_are_confluents_to_the_byte() -> None:
    """Compaction goes by bytes: a record of ours must replace Confluent's, and its tombstone must remove ours."""
    records = list(read_records(str(CONFLUENT)))
    written = {record.key: record.value for record in records_of(replayed(*records).snapshot)}
    last = {record.key: record.value for record in records}
    live = {key: value for key, value in last.items() if value is not None and b"DELETE_SUBJECT" not in key}  # type: ignore[operator]
    live = {key: value for key, value in live.items() if b"CLEAR_SUBJECT" not in key}  # type: ignore[operator]
    ours = {key: value for key, value in written.items() if b"NOOP" not in key}  # type: ignore[operator]
    assert ours == live
