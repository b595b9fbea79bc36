"""The images made and run: in clean roots of Debian by debootstrap and chroot, and by an engine where there is one."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.dockerfile import CleanRoots, Image, can_make_roots, command_in, run_in
from tests.support.service import ROOT
from ticdc_bridge.service.server.health import READY, Address, check_health

_DEBIAN = "trixie"  # as the Dockerfile's base image
_PYTHON = ("ca-certificates", "python3", "python3-venv")
_NOBODY = "54321:0"  # a user without a name, of group 0, as OpenShift has them
_OWN_CERTIFICATES = Path("/usr/local/share/ca-certificates")


def base_root(folder: Path) -> Path:
    """A root of Debian with Python, in place of the image python:…-slim."""
    root = folder / "debian"
    include = ",".join(_PYTHON)
    subprocess.run(["debootstrap", "--variant=minbase", f"--include={include}", _DEBIAN, root], check=True)
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    for cached in (root / "usr/lib").glob("python3*/**/*.pyc"):  # the image has none
        cached.unlink()
    return root


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if reason := can_make_roots():
        pytest.skip(reason)
    return base_root(tmp_path_factory.mktemp("base"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("target", ["service", "spark"])
def test_each_command_of_the_dockerfile_in_a_clean_root(target: str, debian: Path, tmp_path: Path) -> None:
    certificates = "".join(path.read_text() for path in sorted(_OWN_CERTIFICATES.glob("*.crt")))
    image = CleanRoots(debian, ROOT, tmp_path, {"CA_CERTIFICATES": certificates}).make(target)
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o770)
    check_files(image)
    (check_service if target == "service" else check_spark)(image, volume)


def check_files(image: Image) -> None:
    """No pip, no tests, bytecode beside each module, nothing that others can write."""
    packages = next((image.root / "opt/venv/lib").glob("python3*/site-packages"))
    assert not list(packages.glob("pip*"))
    assert not list(packages.glob("setuptools*"))
    for source in (image.root / "opt/ticdc-bridge/schemas").rglob("*.py"):
        assert list((source.parent / "__pycache__").glob(f"{source.stem}.*.pyc")), source
    bill = json.loads((image.root / "opt/ticdc-bridge/sbom.cdx.json").read_text(encoding="utf-8"))
    names = {component["name"] for component in bill["components"]}
    assert {"libc6", "tini", "confluent-kafka"} <= names
    state = (image.root / "var/lib/ticdc-bridge").stat()
    assert (state.st_uid, state.st_gid, state.st_mode & 0o777) == (10001, 0, 0o770)
    others = run_in(image, ["find", "/opt", "/etc", "/usr", "-perm", "-o=w", "!", "-type", "l"])
    assert others.stdout == ""


def check_service(image: Image, volume: Path) -> None:
    """Read-only, as a user without a name: ready, asked by its own check, ended by SIGTERM."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    entry = json.loads(image.about["ENTRYPOINT"])
    command = command_in(
        image, [*entry, "serve"], user=_NOBODY, read_only=True, volumes={"/var/lib/ticdc-bridge": volume}
    )
    environment = {**image.environment, "BRIDGE_PORT": str(port)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 60
            while check_health(Address("127.0.0.1", port))[0] != READY:
                assert time.monotonic() < deadline
                time.sleep(0.1)
            asked = run_in(
                image, ["ticdc-bridge", "health"], user=_NOBODY, read_only=True, extra={"BRIDGE_PORT": str(port)}
            )
            assert asked.stdout.startswith("ready: ")
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(children[0]), 15)
            assert process.wait(30) == 0
        finally:
            process.kill()


def check_spark(image: Image, volume: Path) -> None:
    """Read-only, as a user without a name: the sample messages by Spark, with what the build has made."""
    entry, files = json.loads(image.about["ENTRYPOINT"]), "/opt/ticdc-bridge/schemas/files"
    arguments = [
        "transcode", "--from=avro", "--to=debezium", "--spark", f"--in={files}/shop.messages.jsonl",
        f"--schemas={files}/shop.schemas.jsonl", "--out=out.jsonl", "--time-zone=Asia/Shanghai",
    ]  # fmt: skip
    done = run_in(
        image, [*entry, *arguments], user=_NOBODY, read_only=True, volumes={"/var/lib/ticdc-bridge": volume},
        check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr[-2000:]  # three of the messages have no time: dead letters
    assert len((volume / "out.jsonl").read_text(encoding="utf-8").splitlines()) == 270
    assert {file.name for file in volume.iterdir()} >= {"out.jsonl", "out.jsonl.dead.jsonl"}


def _engine() -> str:
    """Why no engine can be asked; empty where one can."""
    docker = shutil.which("docker")
    if docker is None:
        return "docker is not installed"
    done = subprocess.run([docker, "info"], capture_output=True, check=False, timeout=20)
    return "" if done.returncode == 0 else "no Docker engine answers"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_image_of_the_service_by_an_engine() -> None:
    if reason := _engine():
        pytest.skip(reason)
    tag = f"ticdc-bridge-test-{os.getpid()}"
    run = ["docker", "run", "--rm", "--read-only", "--tmpfs", "/tmp", "--user", _NOBODY]
    try:
        subprocess.run(["docker", "build", "--target", "service", "-t", tag, "."], cwd=ROOT, check=True)
        helped = subprocess.run([*run, tag, "check-ddl", "--help"], capture_output=True, text=True, check=True)
        assert "check-ddl" in helped.stdout
        asked = subprocess.run([*run, tag, "health"], capture_output=True, text=True, check=False)
        assert asked.returncode == 1, asked.stderr
    finally:
        subprocess.run(["docker", "image", "rm", "-f", tag], capture_output=True, check=False)


@pytest.mark.slow
def test_the_bill_of_materials_of_this_python() -> None:
    """What `scripts/sbom.py` prints, here of the tests' own environment."""
    done = subprocess.run(
        [sys.executable, "scripts/sbom.py", "here"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    bill = json.loads(done.stdout)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    purls = {component.get("purl") for component in bill["components"]}
    assert any(str(purl).startswith("pkg:pypi/pyspark@4.1") for purl in purls)
    assert any(str(purl).startswith("pkg:maven/") for purl in purls)
