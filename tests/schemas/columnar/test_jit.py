"""The kernels' cache: machine code of one set of sources is never taken for that of another."""

from __future__ import annotations

from pathlib import Path

from schemas.columnar.kernels import jit


def test_a_changed_byte_in_any_kernel_file_gives_another_digest() -> None:
    sources = jit.read_sources()
    folder = Path(jit.__file__).parent
    assert sources == {file.name: file.read_bytes() for file in folder.glob("*.py")}
    digests = {jit.digest_sources(sources)}
    for name, text in sources.items():
        digests.add(jit.digest_sources({**sources, name: bytes([text[0] ^ 1]) + text[1:]}))
    digests.add(jit.digest_sources({**sources, "another.py": b""}))
    assert len(digests) == len(sources) + 2
