"""What the Spark API's arguments stand for: schemas, definitions and claim checks by path, URL or object."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, cast

from ticdc_bridge.clients.history import HistoryTables
from ticdc_bridge.clients.registry import HttpSchemas, Schemas
from ticdc_bridge.schemas.inputs.claim_check_folder import ClaimFolder
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.inputs.table_sources import definition_source
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import BridgeError, SetupError
from ticdc_bridge.schemas.model.ports import TableSource
from ticdc_bridge.spark_jobs.io.object_paths import path_of
from ticdc_bridge.spark_jobs.pipeline.result import MessageResult
from ticdc_bridge.spark_jobs.runtime.spark_version import check_spark_version

File = str | os.PathLike[str]
P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound=BridgeError)

Function = Literal["decode", "transcode", "encode", "Decoder", "Encoder"]
"""Which of the Python functions an error is told of; each has parameters of its own."""
_PARAMETERS = {
    "--ddl-time-zone": "ddl_time_zone=", "--ddl FILE": "ddl=", "--ddl": "ddl=", "--history URL": "history=",
    "--history": "history=", "--to-registry": "to_registry=", "--to-schemas": "to_schemas=",
    "--registry": "registry=", "--schemas": "schemas=", "--changefeed NAME": "HistoryTables(url, changefeed)",
    "--claim-check-dir": "claim_checks=", "--table DB.TABLE": "table=", "--table": "table=",
    "--time-zone": "time_zone=", "--on-lossy flag": 'on_lossy="flag"', "--from-options": "options=",
    "--to-options": "options=", "--topic": "topic=", "--format": "format=", "--types exact": 'types="exact"',
    "--types typed": 'types="typed"',
    "--types": "types=", "--time": "time=", "--missing": "missing=", "--craft-float": "craft_float=",
    "--without-key append": 'without_key="append"', "--changelog": "changelog=", "--engine": "engine=",
}  # fmt: skip
"""Options of the commands, as all texts of errors name them → parameters of the functions; the longer stands first."""
_AS_OPTION = {"--on-lossy flag": 'options={"on_lossy": "flag"}'}
_OWN: Mapping[str, Mapping[str, str]] = {
    "transcode": {
        **_AS_OPTION, "--from-options": "from_options=", "--format": "from_format=", "--table": "from_options= (table)",
    },
    "encode": _AS_OPTION,
    "Decoder": {"--schemas": "registry=", "--table": "options= (table)", "--craft-float": "options= (craft_float)"},
    "Encoder": {"--schemas": "registry=", "--to-schemas": "registry=", "--to-registry": "registry="},
}  # fmt: skip


def with_parameter_names(function: Callable[P, R], name: Function = "decode") -> Callable[P, R]:
    """A function whose errors (SetupError) name its parameters, where the code below names a command's options.

    name: whose parameters, where it is not called so itself.
    """
    known = function.__qualname__.partition(".")[0]

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except SetupError as error:
            raise named_by_parameters(error, cast(Function, known) if known in _OWN else name) from error

    return call


def named_by_parameters(error: E, function: Function) -> E:
    """An error (SetupError, WireError) with the function's parameters in place of a command's options."""
    fields = {name: _parameter_names(value, function) for name, value in error.fields.items()}
    return error if fields == error.fields else type(error)(error.code, **fields)


def result_in_python(result: MessageResult, function: Function) -> MessageResult:
    """A message's result whose error, if it has one, names the function's parameters."""
    if result.error is not None:
        result.error = named_by_parameters(result.error, function)
    return result


def _parameter_names(text: Any, function: Function) -> Any:
    if not isinstance(text, str) or "--" not in text:
        return text
    known = _OWN.get(function, {})
    return _OPTION.sub(lambda match: known.get(match[1]) or _PARAMETERS[match[1]], text)


_OPTION = re.compile(rf"(?<![\w'\"-])({'|'.join(_PARAMETERS)})(?![\w-])(?: (?=['\"])|(?<=--format) (?=[a-z]))?")
"""An option in a text, and the space before its value; not where a text of the message's is quoted."""


def check_frame(messages: Any, what: str) -> None:
    """SetupError USAGE for what is no Spark DataFrame, or one of Spark 3. what: the argument's name."""
    if not hasattr(messages, "sparkSession") or not hasattr(messages, "dtypes"):
        kind = type(messages)
        name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        details = f"{what} is of type {name}: a Spark DataFrame with key and value is needed (spark.createDataFrame)"
        raise SetupError("USAGE", details=details)
    if messages.sparkSession is not None:  # a Spark Connect server may be older than pyspark here
        check_spark_version(messages.sparkSession.version)


def check_choices(**given: tuple[Any, Iterable[Any]]) -> None:
    """Arguments with the values that each may have. SetupError USAGE for another; None is not among what it says."""
    for name, (value, choices) in given.items():
        if value not in choices:
            raise SetupError("USAGE", details=f"{name}={value!r}: choose {' or '.join(filter(None, choices))}")


def tables_of(ddl: File | TableSource | None, history: str | None, table: str | None = None) -> TableSource | None:
    """Table definitions: a file, a folder or a server's URL as --ddl takes them, a source of them, or the URL of a
    service that has their history.

    table: its database is that of names in SQL that have none.
    """
    if history is not None:
        if ddl is not None:
            raise SetupError("USAGE", details="ddl= and history= both define tables: give one")
        return HistoryTables(history).check()
    if isinstance(ddl, str | os.PathLike):
        source = definition_source(os.fspath(ddl))
        source = path_of(source) if isinstance(source, Path) else source
        return TableDefinitions.read(source, db=(table or "").partition(".")[0])
    if ddl is not None and not callable(getattr(ddl, "at", None)):
        raise SetupError("USAGE", details=f"ddl={type(ddl).__name__}: a file or a TableSource is needed")
    return ddl


def claims_of(folder: File | None) -> ClaimFolder | None:
    return None if folder is None else ClaimFolder.of(path_of(folder))


def schemas_of(format: str, registry: str | None, schemas: Schemas | File | None) -> Schemas:
    if registry is not None and schemas is not None:
        warnings.warn("registry= and schemas= are given: schemas= is used, the registry is not asked", stacklevel=4)
    if isinstance(schemas, str | os.PathLike):
        return FileSchemas.read(path_of(schemas))
    if schemas is not None and not callable(getattr(schemas, "by_id", None)):
        raise SetupError("USAGE", details=f"schemas={type(schemas).__name__}: a file or Schemas are needed")
    if schemas is not None:
        return schemas
    format_ = format_named(format)
    if not format_.needs_schemas and not (format_.uses_schemas and registry):
        return FileSchemas([])
    if registry is None:
        raise SetupError("USAGE", details=f"format {format} needs schemas: give registry= or schemas=")
    return HttpSchemas(registry).check()
