"""A command of the jobs, and how it ends. stdout holds data only; progress and summary go to stderr."""

import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from ticdc_bridge.cli.options import BaseCommand
from ticdc_bridge.schemas.model.credentials import mask_passwords
from ticdc_bridge.schemas.model.errors import BridgeError
from ticdc_bridge.spark_jobs.io.locations import check_is_path
from ticdc_bridge.spark_jobs.io.object_paths import path_of


@dataclass(kw_only=True)
class JobCommand(BaseCommand):
    """A command of the jobs."""

    @property
    def command(self) -> str:
        return type(self).__name__.lower()

    def end(self) -> int | None:
        try:
            for name, value in vars(self).items():  # an option that takes a file or folder, also of an object store
                if isinstance(value, Path):
                    check_is_path(str(value), f"--{name.replace('_', '-')}")
                    setattr(self, name, path_of(value))
                elif name == "lineage" and value is not None:
                    from ticdc_bridge.clients.http import HttpClient

                    HttpClient(value, "--lineage")  # refuses what is no URL
            return self.run()
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
    print(f"error {error.code}: {mask_passwords(error.detail)}{more}", file=sys.stderr)
    return 2
