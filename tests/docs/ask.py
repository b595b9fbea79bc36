"""`python ask.py PORT PYTHON WORDS…`: what `python WORDS…` is for bash in tests/docs/shell.py.

Commands of the service and the jobs are asked for at PORT; PYTHON runs all others.
"""

import json
import os
import socket
import sys

OURS = (["-m", "service"], ["-m", "spark_jobs"], ["-m", "ticdc_bridge"])


def main(port: str, python: str, *words: str) -> int:
    if list(words[:2]) not in OURS:
        os.execv(python, [python, *words])
    question = [os.getcwd(), words[1:], sys.stdin.buffer.read().decode()]
    with socket.create_connection(("127.0.0.1", int(port))) as existing, existing.makefile("rwb") as both:
        both.write(json.dumps(question).encode() + b"\n")
        both.flush()
        code, out, err = json.loads(both.readline())
    sys.stdout.buffer.write(out.encode())
    sys.stdout.buffer.flush()
    sys.stderr.buffer.write(err.encode())
    return int(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
