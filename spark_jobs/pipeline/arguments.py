"""What the Spark API's arguments stand for: schemas, definitions and claim checks by path, URL or object."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, wraps
from inspect import signature
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, Unpack, cast, get_args, get_origin, get_type_hints

from ticdc_bridge.clients.history import HistoryTables
from ticdc_bridge.clients.registry import HttpSchemas, Schemas
from ticdc_bridge.schemas.formats.base import Format
from ticdc_bridge.schemas.inputs.claim_check_folder import ClaimFolder
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.inputs.table_sources import definition_source
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import Hint, SetupError, hints_as, iterate_with_hints
from ticdc_bridge.schemas.model.ports import TableSource
from ticdc_bridge.spark_jobs.io.object_paths import path_of
from ticdc_bridge.spark_jobs.runtime.spark_version import check_spark_version

File = str | os.PathLike[str]
P = ParamSpec("P")
R = TypeVar("R")

Function = Literal["decode", "transcode", "encode", "Decoder", "Encoder"]
"""The Python functions by whose parameters errors name what to give; merge's and changelog's are decode's."""
_PARAMETERS = {
    Hint.CHANGEFEED: "HistoryTables(url, changefeed)", Hint.CHANGELOG: "changelog=", Hint.CLAIM_CHECKS: "claim_checks=",
    Hint.DDL: "ddl=", Hint.DDL_FILE: "ddl=", Hint.DDL_TIME_ZONE: "HistoryTables(url, zone=…)",
    Hint.ENGINE: "engine=", Hint.FORMAT: "format=", Hint.HISTORY: "history=", Hint.HISTORY_URL: "history=",
    Hint.ON_LOSSY_FLAG: 'on_lossy="flag"', Hint.READ_OPTIONS: "options=", Hint.REGISTRY: "registry=",
    Hint.REGISTRY_URL: "registry=", Hint.SCHEMAS: "schemas=", Hint.SCHEMAS_FILE: "schemas=", Hint.TABLE: "table=",
    Hint.LOAD_NEW: 'load("mysql://…", table="{table}", into=PLACE)',
    Hint.LOAD_REPLACE: 'load("mysql://…", table="{table}", into=PLACE, replace=True)',
    Hint.TIME: "time=", Hint.TOPIC: "topic=", Hint.TYPES: 'types="', Hint.WITHOUT_KEY_APPEND: 'without_key="append"',
}  # fmt: skip
_ONE_REGISTRY = {Hint.SCHEMAS: "registry=", Hint.REGISTRY_URL: "registry=URL", Hint.SCHEMAS_FILE: "registry=FILE"}
_FLAG_OPTION = {Hint.ON_LOSSY_FLAG: 'options={"on_lossy": "flag"}'}
_WORDS: Mapping[Function, Mapping[Hint, str]] = {
    "decode": _PARAMETERS,
    "transcode": {
        **_PARAMETERS, **_FLAG_OPTION, Hint.READ_OPTIONS: "from_options=", Hint.FORMAT: "from_format=",
        Hint.TABLE: "from_options= (table)",
    },
    "encode": {**_PARAMETERS, **_FLAG_OPTION},
    "Decoder": {**_PARAMETERS, **_ONE_REGISTRY, Hint.TABLE: "options= (table)"},
    "Encoder": {**_PARAMETERS, **_ONE_REGISTRY},
}  # fmt: skip


def hints_in_python(function: Function) -> AbstractContextManager[None]:
    """Errors made within name the function's parameters."""
    return hints_as(_WORDS[function])


def with_parameter_names(function: Callable[P, R]) -> Callable[P, R]:
    """A function whose errors name its parameters, where the command line's name its options. An argument of another
    type than its annotation's is SetupError USAGE.
    """
    known = cast(Function, function.__qualname__.partition(".")[0])
    words, names = _WORDS.get(known, _PARAMETERS), tuple(signature(function).parameters)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        kinds = _kinds_of(function)
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            kind = kinds.get(name)
            if kind is not None and not _fits(value, kind):
                needed = _UNITS.get(name) or " or ".join(_NAMES.get(k, k.__name__) for k in kind if k is not NoneType)
                raise SetupError("USAGE", details=f"{name} is of type {type(value).__name__}: {needed} is needed")
        with hints_as(words):
            return function(*args, **kwargs)

    return call


def _fits(value: Any, kind: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in kind
    is_text_for_list = kind == (Sequence,) and isinstance(value, str)
    return (isinstance(value, kind) and not is_text_for_list) or (float in kind and isinstance(value, int))


@cache
def _kinds_of(function: Callable[..., Any]) -> dict[str, tuple[type, ...]]:
    """The classes that an argument may be of, by its name; not of those that an object of any class can be."""
    kinds = dict[str, tuple[type, ...]]()
    own = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
    hints = get_type_hints(SimpleNamespace(__annotations__=own, __globals__=function.__globals__))
    for hint in [hint for hint in hints.values() if get_origin(hint) is Unpack]:
        hints |= get_type_hints(get_args(hint)[0])
    for name, hint in hints.items():
        types = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        classes = tuple(str if get_origin(t) is Literal else get_origin(t) or t for t in types)
        if name not in _CHECKED_BELOW and all(
            isinstance(c, type) and not getattr(c, "_is_protocol", False) for c in classes
        ):
            kinds[name] = classes
    return kinds


_CHECKED_BELOW = ("key", "value", "event", "headers", "messages", "changes")
_NAMES: dict[type, str] = {
    str: "a text", int: "a whole number", float: "a number", bool: "true or false", Mapping: "an object with names",
    Sequence: "a list of texts", os.PathLike: "a path",
}  # fmt: skip
_UNITS = {"timestamp": "a whole number of milliseconds since 1970"}


def rows_with_parameter_names(function: Function, rows: Iterator[R]) -> Iterator[R]:
    """Rows (or batches) of a worker, whose errors name the function's parameters."""
    return iterate_with_hints(_WORDS[function], rows)


def check_frame(messages: Any, what: str) -> None:
    """SetupError USAGE for what is no Spark DataFrame, or one of Spark 3. what: the argument's name."""
    if not hasattr(messages, "sparkSession") or not hasattr(messages, "dtypes"):
        kind = type(messages)
        name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        details = f"{what} is of type {name}: a Spark DataFrame with key and value is needed (spark.createDataFrame)"
        raise SetupError("USAGE", details=details)
    if messages.sparkSession is not None:  # a Spark Connect server may be older than pyspark here
        check_spark_version(messages.sparkSession.version)


def check_choices(**arguments: tuple[Any, Iterable[Any]]) -> None:
    """Arguments with the values that each may have. SetupError USAGE for another; None is not among what it says."""
    for name, (value, choices) in arguments.items():
        if value not in choices:
            raise SetupError("USAGE", details=f"{name}={value!r}: choose {' or '.join(filter(None, choices))}")


def definitions(
    source: Any, history: str | None, changefeed: str | None = None, zone: str | None = None, db: str = "",
    wait: float = 5.0,
) -> TableSource | None:  # fmt: skip
    """Table definitions of a file, folder or server (`source`), or of the service at the URL `history`.

    zone: of literal TIMESTAMP defaults. db: that of names in SQL that have none. wait: seconds to try.
    SetupError USAGE, REGISTRY_UNREACHABLE.
    """
    if history is not None:
        if source is not None:
            raise SetupError("USAGE", details=f"{Hint.DDL_FILE} and {Hint.HISTORY_URL} both define tables: give one")
        return HistoryTables(history, changefeed, zone, wait).check()
    return None if source is None else TableDefinitions.read(source, zone, db)


def schemas_at(format: Format, registry: str | None, file: Path | None, name: str, wait: float = 5.0) -> Schemas:
    """Schemas of a file, else of the registry where the format `name` has a use for it. SetupError as `definitions`."""
    if file is not None:
        return FileSchemas.read(file)
    if (format.needs_schemas and registry is not None) or (format.uses_schemas and registry):
        return HttpSchemas(registry, wait).check()
    if format.needs_schemas:
        raise SetupError("USAGE", details=f"{name} needs schemas: give {Hint.REGISTRY_URL} or {Hint.SCHEMAS_FILE}")
    return FileSchemas([])


def tables_of(ddl: File | TableSource | None, history: str | None, table: str | None = None) -> TableSource | None:
    """What --ddl takes, a source, or a history's URL, as a source. table: its database is that of bare names."""
    if isinstance(ddl, str | os.PathLike):
        source = definition_source(os.fspath(ddl))
        source = path_of(source) if isinstance(source, Path) else source
        return definitions(source, history, db=(table or "").partition(".")[0])
    if ddl is None or history is not None:
        return definitions(ddl, history)
    if not callable(getattr(ddl, "at", None)):
        raise SetupError("USAGE", details=f"ddl={type(ddl).__name__}: a file or a TableSource is needed")
    return ddl


def claims_of(folder: File | None) -> ClaimFolder | None:
    return None if folder is None else ClaimFolder.of(path_of(folder))


def schemas_of(format: str, registry: str | None, schemas: Schemas | File | None) -> Schemas:
    if registry is not None and schemas is not None:
        warnings.warn("registry= and schemas= are given: schemas= is used, the registry is not asked", stacklevel=4)
    if schemas is None or isinstance(schemas, str | os.PathLike):
        file = None if schemas is None else path_of(schemas)
        return schemas_at(format_named(format), registry, file, f"format {format}")
    if not callable(getattr(schemas, "by_id", None)):
        raise SetupError("USAGE", details=f"{Hint.SCHEMAS.of(type(schemas).__name__)}: a file or Schemas are needed")
    return schemas
