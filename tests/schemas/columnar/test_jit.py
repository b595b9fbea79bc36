"""The kernels' cache: machine code of one set of sources is never taken for that of another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ticdc_bridge.schemas.columnar.kernels import jit


def test_a_changed_byte_in_any_kernel_file_gives_another_digest() -> None:
    sources = jit.read_sources()
    folder = Path(jit.__file__).parent
    assert sources == {file.name: file.read_bytes() for file in folder.glob("*.py")}
    digests = {jit.digest_sources(sources)}
    for name, text in sources.items():
        digests.add(jit.digest_sources({**sources, name: bytes([text[0] ^ 1]) + text[1:]}))
    digests.add(jit.digest_sources({**sources, "another.py": b""}))
    assert len(digests) == len(sources) + 2


def test_a_cache_that_can_only_be_read_is_used_by_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an image: what is there is found, and what is compiled beside it goes to a folder of this user's."""
    monkeypatch.setenv("BRIDGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = jit._cache_folder()
    assert folder is not None
    assert folder.is_relative_to(tmp_path / "cache")
    code = folder / "__pycache__"
    code.mkdir()
    (code / "a.nbi").write_bytes(b"index")
    can = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK or (can(path, mode) and Path(path) != folder))
    own = jit._cache_folder()
    assert own is not None
    assert own.parent == tmp_path / f"ticdc-bridge-kernels-{os.getuid()}"
    assert own.parent.stat().st_mode & 0o777 == 0o700
    assert (own / "__pycache__" / "a.nbi").read_bytes() == b"index"
    assert {file.name: file.read_bytes() for file in own.glob("*.py")} == jit.read_sources()
    # As numba writes: a new file in place of the link. It stays when the next process comes.
    new = own / "__pycache__" / "new"
    new.write_bytes(b"more")
    new.replace(own / "__pycache__" / "a.nbi")
    assert jit._cache_folder() == own
    assert (own / "__pycache__" / "a.nbi").read_bytes() == b"more"
    assert (code / "a.nbi").read_bytes() == b"index"
    # Machine code that others can write is not run.
    own.parent.chmod(0o777)
    assert jit._cache_folder() is None
