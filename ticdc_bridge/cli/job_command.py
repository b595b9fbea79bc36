"""A command of the jobs: a dataclass whose fields are its options and whose `run` does it, and how it ends.

stdout holds data only; progress and summary go to stderr.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

from ticdc_bridge.schemas.model.errors import BridgeError
from ticdc_bridge.spark_jobs.io.locations import check_is_path
from ticdc_bridge.spark_jobs.io.object_paths import path_of


@dataclass(kw_only=True)
class JobCommand:
    """Options as `Annotated` fields; those with `init=False` are no options. The docstring is the help."""

    notes: ClassVar[str] = ""
    """What stands at the end of the help, after the examples."""

    @property
    def command(self) -> str:
        return type(self).__name__.lower()

    def run(self) -> int:
        """Does it. The exit code: 0, or 1 with dead letters or where a check says no. Raises BridgeError."""
        raise NotImplementedError

    @classmethod
    def as_function(cls) -> Callable[..., int]:
        """The command as Typer takes it: a function whose parameters are the fields."""
        hints = get_type_hints(cls, include_extras=True)

        def call(**values: Any) -> int:
            return _exit_code(cls(**values))

        parameters = []
        for field in fields(cls):
            default = field.default if field.default_factory is MISSING else field.default_factory()
            default = Parameter.empty if default is MISSING else default
            if field.init:
                name = field.name
                parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[name]))
        call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        call.__doc__ = cls.__doc__
        return call


def _exit_code(command: JobCommand) -> int:
    """Runs a command; what ends it is said on stderr."""
    try:
        for name, value in vars(command).items():  # an option that takes a file or folder, also of an object store
            if isinstance(value, Path):
                check_is_path(str(value), f"--{name.replace('_', '-')}")
                setattr(command, name, path_of(value))
        return command.run()
    except BridgeError as error:
        return refuse(error)
    except KeyboardInterrupt:
        print("interrupted: the output is not complete", file=sys.stderr)
        return 130
    except Exception as error:
        from ticdc_bridge.spark_jobs.spark.errors import error_of, java_end

        reason = java_end(error) if isinstance(error, BrokenPipeError) else error_of(error)
        if reason is not None:
            return refuse(reason, "; the output is not complete")
        if isinstance(error, BrokenPipeError):  # the reader of the output went away
            raise
        # Exit code 1 means "done": a defect of ours must not look like that.
        traceback.print_exc()
        print("internal error: please report it with the text above; the output is not complete", file=sys.stderr)
        return 2


def refuse(error: BridgeError, more: str = "") -> int:
    """Says why a job can't start or go on. The exit code."""
    print(f"error {error.code}: {error.detail}{more}", file=sys.stderr)
    return 2
