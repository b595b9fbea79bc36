"""`completion`: the scripts by which bash, zsh and fish complete words; Typer makes them and answers what they ask."""

from dataclasses import dataclass
from typing import Literal

from typer.completion import shell_complete

from ticdc_bridge.cli import PROGRAM
from ticdc_bridge.cli.app import COMPLETE_VARIABLE, group
from ticdc_bridge.cli.options import BaseCommand, argument


@dataclass(kw_only=True)
class Completion(BaseCommand):
    """Print the completion script of a shell.

    `ticdc-bridge --install-completion` installs that of the shell it is called from.

    Examples:
      source <(ticdc-bridge completion bash)      in ~/.bashrc
      source <(ticdc-bridge completion zsh)       in ~/.zshrc, after compinit
      ticdc-bridge completion fish > ~/.config/fish/completions/ticdc-bridge.fish
    """

    shell: Literal["bash", "zsh", "fish"] = argument("bash|zsh|fish", "The shell.", ...)

    def run(self) -> int:
        return shell_complete(group(), {}, PROGRAM, COMPLETE_VARIABLE, f"source_{self.shell}")
