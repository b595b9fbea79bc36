"""`--claim-check-dir`: the contents of claim-check messages, as files in one folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ticdc_bridge.schemas.formats.framing import MAX_MESSAGE
from ticdc_bridge.schemas.model.errors import Hint, SetupError, WireError
from ticdc_bridge.schemas.model.reasons import reason_of

_MOST = MAX_MESSAGE * 3  # base64 in JSON takes a third more than the message


@dataclass(frozen=True)
class ClaimFolder:
    """Files by their base names (schemas.model.ports.ClaimChecks). The folder's path is not that of the message's
    URI.
    """

    folder: Path

    @classmethod
    def of(cls, folder: Path) -> ClaimFolder:
        """SetupError USAGE when there is no such folder."""
        if not folder.is_dir():
            raise SetupError("USAGE", details=f"{Hint.CLAIM_CHECKS} {folder}: there is no such folder")
        return cls(folder.resolve())

    def fetch(self, name: str) -> bytes:
        if not name or name in (".", "..") or any(c in name for c in "/\\\0"):
            raise WireError("CLAIM_CHECK", uri=repr(name[:200]), details="it names no file")
        try:
            with (self.folder / name).open("rb") as file:
                data = file.read(_MOST + 1)
        except (OSError, ValueError) as error:
            details = f"the claim-check folder has no such file that can be read: {reason_of(error)}"
            raise WireError("CLAIM_CHECK", uri=name[:200], details=details) from error
        if len(data) > _MOST:
            raise WireError("CLAIM_CHECK", uri=name[:200], details=f"the file is larger than {_MOST} bytes")
        return data
