"""`hash-password`, `new-token`, `check-acl`: making and trying the files of --auth-file and --acl-file."""

import sys
from dataclasses import dataclass
from typing import ClassVar

import typer

from ticdc_bridge.cli.options import ACCESS, argument, option
from ticdc_bridge.cli.output import ServiceCommand


@dataclass(kw_only=True)
class HashPassword(ServiceCommand):
    """Print a line for --auth-file. The password is read from standard input, or asked for.

    Examples:
      ticdc-bridge hash-password alice >> users.htpasswd
    """

    wrong: ClassVar = (ValueError,)
    name: str = argument("NAME", "The user's name.", ...)

    def run(self) -> None:
        from ticdc_bridge.service.auth import credentials

        credentials.check_name(self.name)
        if sys.stdin.isatty():
            password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        else:
            password = sys.stdin.readline().rstrip("\r\n")
        print(f"{self.name}:{credentials.hash_of(password)}")


@dataclass(kw_only=True)
class NewToken(ServiceCommand):
    """Print a new token on stderr and its line for --auth-file on stdout. The token can't be shown again.

    A client sends it as a bearer token, or as the password of NAME (http://NAME:TOKEN@HOST:8081 for TiCDC).

    Examples:
      ticdc-bridge new-token ticdc >> users.htpasswd
    """

    name: str = argument("NAME", "The user's name.", ...)

    def run(self) -> None:
        from ticdc_bridge.service.auth import credentials

        credentials.check_name(self.name)
        token, hashed = credentials.new_token()
        print(f"token of {self.name}: {token}", file=sys.stderr)
        print(f"{self.name}:{hashed}")


@dataclass(kw_only=True)
class CheckAcl(ServiceCommand):
    """Check an ACL file; with NAME say what they may do, with SUBJECT on that subject.

    Exit code 0: it can be used (and with SUBJECT: it may be read); 1: it may not be read; 2: it can't be used.

    Examples:
      ticdc-bridge check-acl acl.toml ticdc shop.orders-value
    """

    file: str = argument("FILE", "The file of --acl-file.", ...)
    name: str | None = argument("NAME", "Whose rights to show; cert:CN for a certificate.")
    subject: str | None = argument("SUBJECT", "On which subject.")
    auth_file: str | None = option(ACCESS, "FILE", "Report users of this file that no rule names.")

    def run(self) -> int:
        from ticdc_bridge.service.auth import acl, credentials
        from ticdc_bridge.service.auth.file_watcher import read_text

        rules = acl.read(read_text(self.file), self.file)
        users = credentials.read(read_text(self.auth_file), self.auth_file).names if self.auth_file else set()
        print(f"{self.file}: {len(rules.rules)} rules, {len(rules.roles)} roles", file=sys.stderr)
        without = sorted(name for name in users if rules.access(name) == acl.NOTHING)
        if without:
            print(f"no rule for: {', '.join(without)}", file=sys.stderr)
        if self.name is None:
            return 0
        access = rules.access(self.name)
        if access.everything:
            print("everything (admin)")
            return 0
        if self.subject is not None:
            allowed = [operation for operation in acl.OF_SUBJECTS if access.may(operation, self.subject)]
            print(", ".join(allowed) or "nothing: looks absent")
            return 0 if allowed else 1
        print("on the server:", ", ".join(name for name in acl.OF_SERVER if access.may_serve(name)) or "nothing")
        for rule in access.rules:
            where = [*sorted(rule.subjects), *(f"{prefix}…" for prefix in rule.prefixes), *rule.patterns]
            print(f"{', '.join(sorted(rule.may))}: {', '.join(where)}")
        return 0
