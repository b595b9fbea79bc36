"""`make audit`: are vulnerabilities known in the packages of the lock?

pip-audit asks PyPI's vulnerability service, from an environment of its own below .cache. Exit code 0: every package was
looked up and none is known to be vulnerable; 1: some are; 3: they could not (all) be looked up, and the text says so.
"""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
LOCK: Final = ROOT / "requirements" / "lock.txt"
PIP_AUDIT: Final = "pip-audit==2.10.1"
CANNOT: Final = 3


def tool() -> Path | None:
    """The Python of an environment with pip-audit; None if that can't be installed."""
    folder = ROOT / ".cache" / "audit"
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PIP_AUDIT]
    return python if subprocess.run(command, check=False).returncode == 0 else None


def verdict(report: dict[str, list[dict[str, object]]]) -> tuple[int, list[str]]:
    """The exit code and what to say about pip-audit's report."""
    packages = report.get("dependencies", [])
    skipped = [package for package in packages if "skip_reason" in package]
    bad = [package for package in packages if package.get("vulns")]
    said = [f"{entry['name']} {entry.get('version')}: {json.dumps(entry['vulns'])}" for entry in bad]
    said.append(f"{len(packages) - len(skipped)} of {len(packages)} packages looked up, {len(bad)} vulnerable")
    if skipped or not packages:
        reasons = sorted({str(entry["skip_reason"]).partition(":")[0] for entry in skipped})
        said.append(f"NOT AUDITED: {len(skipped)} packages, because: {'; '.join(reasons) or 'no answer'}")
        said.append("The vulnerability service can't be reached from here, or the index is not PyPI's own.")
    return (1 if bad else CANNOT if skipped or not packages else 0), said


def main() -> int:
    python = tool()
    if python is None:
        print("NOT AUDITED: pip-audit can't be installed here", file=sys.stderr)
        return CANNOT
    command = [str(python), "-m", "pip_audit", "--no-deps", "--disable-pip", "--progress-spinner", "off"]
    done = subprocess.run([*command, "-f", "json", "-r", str(LOCK)], capture_output=True, text=True, check=False)
    try:
        code, said = verdict(json.loads(done.stdout))
    except ValueError:
        code, said = CANNOT, [f"NOT AUDITED: pip-audit said: {done.stderr.strip()[-500:]}"]
    print("\n".join(said))
    return code


if __name__ == "__main__":
    sys.exit(main())
