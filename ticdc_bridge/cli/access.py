"""`hash-password`, `new-token`, `check-acl`: making and trying the files of --auth-file and --acl-file."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from ticdc_bridge.cli.output import exit_with
from ticdc_bridge.schemas.model.errors import SetupError

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
AclPath = Annotated[str, typer.Argument(metavar="FILE", help="The file of --acl-file.")]
Who = Annotated[str | None, typer.Argument(metavar="NAME", help="Whose rights to show; cert:CN for a certificate.")]
Subject = Annotated[str | None, typer.Argument(metavar="SUBJECT", help="On which subject.")]
AuthPath = Annotated[
    str | None, typer.Option("--auth-file", metavar="FILE", help="Report users of this file that no rule names.")
]
_REFUSED: Final = 1


def hash_password(name: Name) -> None:
    """Print a line for --auth-file. The password is read from standard input, or asked for.

    Examples:
      ticdc-bridge hash-password alice >> users.htpasswd
    """
    from ticdc_bridge.service.auth import credentials

    _check_name(name)
    if sys.stdin.isatty():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    try:
        print(f"{name}:{credentials.hash_of(password)}")
    except ValueError as error:
        exit_with(str(error))


def new_token(name: Name) -> None:
    """Print a new token on stderr and its line for --auth-file on stdout. The token can't be shown again.

    A client sends it as a bearer token, or as the password of NAME (http://NAME:TOKEN@HOST:8081 for TiCDC).

    Examples:
      ticdc-bridge new-token ticdc >> users.htpasswd
    """
    from ticdc_bridge.service.auth import credentials

    _check_name(name)
    token, hashed = credentials.new_token()
    print(f"token of {name}: {token}", file=sys.stderr)
    print(f"{name}:{hashed}")


def _check_name(name: str) -> None:
    from ticdc_bridge.service.auth import credentials

    try:
        credentials.check_name(name)
    except SetupError as error:
        exit_with(error.detail)


def check_acl(file: AclPath, name: Who = None, subject: Subject = None, auth_file: AuthPath = None) -> None:
    """Check an ACL file; with NAME say what they may do, with SUBJECT on that subject.

    Exit code 0: it can be used (and with SUBJECT: it may be read); 1: it may not be read; 2: it can't be used.

    Examples:
      ticdc-bridge check-acl acl.toml ticdc shop.orders-value
    """
    from ticdc_bridge.service.auth import acl, credentials
    from ticdc_bridge.service.auth.file_watcher import read_text

    try:
        rules = acl.read(read_text(file), file)
        names = credentials.read(read_text(auth_file), auth_file).names if auth_file else set()
    except SetupError as error:
        exit_with(error.detail)
    print(f"{file}: {len(rules.rules)} rules, {len(rules.roles)} roles", file=sys.stderr)
    without = sorted(one for one in names if rules.access(one) == acl.NOTHING)
    if without:
        print(f"no rule for: {', '.join(without)}", file=sys.stderr)
    if name is None:
        return
    access = rules.access(name)
    if access.everything:
        print("everything (admin)")
        return
    if subject is not None:
        allowed = [operation for operation in acl.OF_SUBJECTS if access.may(operation, subject)]
        print(", ".join(allowed) or "nothing: looks absent")
        raise typer.Exit(0 if allowed else _REFUSED)
    print("on the server:", ", ".join(one for one in acl.OF_SERVER if access.may_serve(one)) or "nothing")
    for rule in access.rules:
        where = [*sorted(rule.subjects), *(f"{one}…" for one in rule.prefixes), *(one.text for one in rule.patterns)]
        print(f"{', '.join(sorted(rule.may))}: {', '.join(where)}")
