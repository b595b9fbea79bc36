"""The messages whose outputs are recorded: golden cases, a real connector's, and the corpus of damaged ones."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests import fuzzing
from tests.support import connector
from tests.support.golden import CONNECTOR, Golden, cases
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.io.message_files import message_line
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig


@dataclass(frozen=True)
class OutputCase:
    """Messages of one format, and the reading side with and without table definitions.

    schema_lines: what `--schemas` reads; ddl_file: what `--ddl` reads, None where there are no definitions.
    """

    name: str
    side: CodecConfig
    messages: tuple[Message, ...]
    defined: CodecConfig
    schema_lines: str
    ddl_file: Path | None

    @property
    def format(self) -> str:
        return self.side.format

    def write_messages(self, path: Path) -> Path:
        """The messages as a message file."""
        path.write_text("".join(json.dumps(message_line(m)) + "\n" for m in self.messages), encoding="utf-8")
        return path


def output_cases(format_: str) -> list[OutputCase]:
    """All cases of a format: offsets count from 0 in each."""
    if format_ == CONNECTOR:
        return list(_connector_cases())
    found = [_golden_case(golden) for golden in cases(format_)]
    corpus = fuzzing.CORPUS / f"{format_}.jsonl"
    if corpus.exists():
        damaged: dict[Golden, list[Message]] = {}
        for golden, message, _ in fuzzing.read(corpus):
            damaged.setdefault(golden, []).append(message)
        found += [_golden_case(golden, f"corpus {golden}", messages) for golden, messages in damaged.items()]
    return found


def _golden_case(golden: Golden, name: str = "", messages: list[Message] | None = None) -> OutputCase:
    numbered = tuple(replace(m, offset=n) for n, m in enumerate(messages or golden.messages()))
    plain, defined = (
        replace(image, options=replace(image.options, on_lossy="flag"))
        for image in (golden.side(), golden.side(ddl=True))
    )
    schema_lines = golden.meta_file.read_text(encoding="utf-8")
    return OutputCase(name or str(golden), plain, numbered, defined, schema_lines, golden.meta_file)


def _connector_cases() -> Iterator[OutputCase]:
    options = Options.of({"on_lossy": "flag"})
    for name in connector.settings():
        config = CodecConfig("debezium-mysql", FileSchemas([]), options)
        yield OutputCase(f"debezium-mysql/{name}", config, tuple(connector.json_messages(name)), config, "", None)
    for name in connector.settings(".avro_confluent"):
        schemas = connector.avro_schemas(name)
        config = CodecConfig("debezium-mysql", schemas, options)
        lines = "".join(
            json.dumps({"subject": row["subject"], "version": 1, "id": row["id"], "schema": row["schema"]}) + "\n"
            for row in connector.schema_rows(name)
        )
        messages = tuple(connector.avro_messages(name))
        yield OutputCase(f"debezium-mysql/{name} in Avro", config, messages, config, lines, None)
