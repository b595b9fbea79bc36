"""A Dockerfile read, and its stages made in folders instead of by an engine: each RUN by chroot, as root.

What it knows is what our Dockerfile uses; anything else is an error, so that nothing is passed over.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_FROM = re.compile(r"(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE)
_NAMED = re.compile(r"\$(?:(\w+)|\{(\w+)(?::-([^}]*))?\})")
_ABOUT = ("CMD", "ENTRYPOINT", "EXPOSE", "HEALTHCHECK", "LABEL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR")


@dataclass(frozen=True, slots=True)
class Stage:
    """One FROM: what it is made from (another stage, or an image), its name, its instructions with their text."""

    base: str
    name: str
    steps: Sequence[tuple[str, str]]

    def texts(self, instruction: str) -> list[str]:
        return [text for name, text in self.steps if name == instruction]


@dataclass(slots=True)
class Image:
    """What a stage has become: the folder of its files, its environment, and what else is said of it."""

    root: Path
    environment: dict[str, str]
    about: dict[str, str] = field(default_factory=dict)


def read_dockerfile(text: str) -> tuple[dict[str, str], dict[str, Stage]]:
    """Arguments before the first FROM with their defaults, and the stages by name, in order."""
    text = re.sub(r"(?m)^\s*#.*\n", "", text)
    lines = [line for line in re.sub(r"\\\n", "", text).splitlines() if line.strip()]
    arguments: dict[str, str] = {}
    stages: dict[str, Stage] = {}
    steps: list[tuple[str, str]] = []
    for line in lines:
        name, _, rest = line.strip().partition(" ")
        if name == "FROM":
            match = _FROM.fullmatch(_expand(rest.strip(), arguments))
            assert match, line
            steps = []
            stages[match[2] or match[1]] = Stage(match[1], match[2] or match[1], steps)
        elif not stages:
            assert name == "ARG", line
            arguments |= _argument(rest)
        else:
            steps.append((name, rest.strip()))
    return arguments, stages


def _argument(text: str) -> dict[str, str]:
    name, _, default = text.strip().partition("=")
    return {name: shlex.split(default)[0] if default else ""}


def _expand(text: str, values: Mapping[str, str]) -> str:
    return _NAMED.sub(lambda m: values.get(m[1] or m[2]) or m[3] or "", text)


class CleanRoots:
    """Makes stages in folders.

    base: a root folder in place of the image from a registry; context: the folder that COPY reads; arguments: of the
    build; folder: where the roots go.
    """

    def __init__(self, base: Path, context: Path, folder: Path, arguments: Mapping[str, str]) -> None:
        self._base, self._context, self._folder = base, context, folder
        self._arguments = dict(arguments)
        self._global, self.stages = read_dockerfile((context / "Dockerfile").read_text(encoding="utf-8"))
        self._made: dict[str, Image] = {}

    def make(self, name: str) -> Image:
        """The stage, after those that it needs. Raises CalledProcessError with the output of a RUN that failed."""
        if name not in self._made:
            stage = self.stages[name]
            if stage.base in self.stages:
                from_ = self.make(stage.base)
            else:
                from_ = Image(self._base, {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"})
            root = self._folder / name
            subprocess.run(["cp", "-a", from_.root, root], check=True)
            image = Image(root, dict(from_.environment), dict(from_.about))
            self._made[name] = image
            arguments: dict[str, str] = {}
            for step, text in stage.steps:
                self._do(image, step, text, arguments)
        return self._made[name]

    def _do(self, image: Image, step: str, text: str, arguments: dict[str, str]) -> None:
        values = {**arguments, **image.environment}
        if step == "ARG":
            argument = _argument(text)
            arguments |= {name: self._arguments.get(name, default) for name, default in argument.items()}
        elif step == "ENV":
            image.environment |= dict(pair.split("=", 1) for pair in shlex.split(_expand(text, values)))
        elif step == "COPY":
            self._copy(image, shlex.split(_expand(text, values)))
        elif step == "RUN":
            folder = image.about.get("WORKDIR", "/")
            run_in(image, ["/bin/sh", "-c", f"cd {folder} && {text}"], extra=arguments)
        elif step == "WORKDIR":
            image.about[step] = text
            (image.root / text.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif step in _ABOUT:
            image.about[step] = _expand(text, values)
        else:
            raise ValueError(f"{step} is not known here")

    def _copy(self, image: Image, words: list[str]) -> None:
        options = {name: value for name, _, value in (word.partition("=") for word in words if word.startswith("--"))}
        *sources, target = [word for word in words if not word.startswith("--")]
        root = self.make(options.pop("--from")).root if "--from" in options else self._context
        owner = options.pop("--chown", "0:0")
        assert not options, options
        to = image.root / os.path.join(image.about.get("WORKDIR", "/"), target).lstrip("/")
        for source in sources:
            from_ = root / source.lstrip("/")
            position = to / from_.name if target.endswith("/") else to
            if from_.is_dir():
                ignored = shutil.ignore_patterns("__pycache__") if root == self._context else None
                shutil.copytree(from_, position, symlinks=True, dirs_exist_ok=True, ignore=ignored)
            else:
                position.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(from_, position)
            run_in(image, ["chown", "-R", owner, f"/{position.relative_to(image.root)}"])


def run_in(
    image: Image,
    command: Sequence[str],
    *,
    user: str = "0:0",
    extra: Mapping[str, str] | None = None,
    read_only: bool = False,
    volumes: Mapping[str, Path] | None = None,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """A command in the image's files, as an engine would run it.

    user: UID:GID. extra: more of its environment. read_only: nothing but /tmp (which is empty) and the volumes can be
    written. volumes: folders of this machine, by their place in the image.
    """
    return subprocess.run(
        command_in(image, command, user=user, read_only=read_only, volumes=volumes),
        env={**image.environment, **(extra or {})}, capture_output=True, text=True, check=check,
    )  # fmt: skip


def command_in(
    image: Image,
    command: Sequence[str],
    *,
    user: str = "0:0",
    read_only: bool = False,
    volumes: Mapping[str, Path] | None = None,
) -> list[str]:
    """The command of this machine that runs `command` as `run_in` says, as the first process of its own."""
    root = shlex.quote(str(image.root))
    steps = [f"mount --bind {root} {root}"]
    for source, value in {"/dev": "dev", "/sys": "sys"}.items():
        steps.append(f"mount --rbind {source} {root}/{value}")
    for name, volume in (volumes or {}).items():
        steps.append(f"mount --bind {shlex.quote(str(volume))} {root}/{name.lstrip('/')}")
    if read_only:
        steps += [f"mount -o remount,ro,bind {root}", f"mount -t tmpfs tmpfs {root}/tmp"]
    steps += [f"mount -t proc proc {root}/proc"]
    folder = image.about.get("WORKDIR", "/") if user != "0:0" else "/"
    inner = f"cd {folder} && exec {shlex.join(command)}"
    chroot = f"exec chroot --userspec={user} --groups= {root} /bin/sh -c {shlex.quote(inner)}"
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", " && ".join([*steps, chroot])]


def can_make_roots() -> str:
    """Why no roots can be made here; empty where they can."""
    if os.geteuid() != 0:
        return "chroot needs root"
    missing = [tool for tool in ("chroot", "unshare", "mount", "debootstrap") if shutil.which(tool) is None]
    return f"{', '.join(missing)} is not installed" if missing else ""
