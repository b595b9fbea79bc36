"""Parts of pages that are made from tables: the text between two comments."""

from dataclasses import dataclass
from pathlib import Path

from tests.support.golden import ROOT


@dataclass(frozen=True)
class GeneratedPart:
    """The part `name` of docs/`page`: between `<!-- name: made by command -->` and `<!-- end of the name -->`."""

    page: str
    name: str
    command: str = "make docs"

    @property
    def path(self) -> Path:
        return ROOT / "docs" / self.page

    def read(self) -> str:
        """What stands there. ValueError where the comments are missing."""
        return self._split()[1]

    def write(self, text: str) -> None:
        """Puts `text` there."""
        before, _, after = self._split()
        self.path.write_text(before + text + after, encoding="utf-8")

    def _split(self) -> tuple[str, str, str]:
        begin, end = f"<!-- {self.name}: made by `{self.command}` -->\n", f"<!-- end of the {self.name} -->\n"
        head, found, rest = self.path.read_text(encoding="utf-8").partition(begin)
        part, last, tail = rest.partition(end)
        if not found or not last:
            raise ValueError(f"{self.page} lacks the comments around {self.name}")
        return head + begin, part, end + tail
