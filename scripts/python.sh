#!/bin/sh
# Print the path of a Python that the project runs on, or say what was found and what to do (exit code 2).
# PYTHON=… names one; else the first that fits of those on PATH.
candidates=${PYTHON:-python3 python3.13 python3.12 python3.11}
found=
for candidate in $candidates; do
    version=$("$candidate" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) || continue
    case $version in
        3.11.* | 3.12.* | 3.13.*) "$candidate" -c 'import sys; print(sys.executable)' && exit 0 ;;
    esac
    found="$found
    $candidate is $version"
done
cat >&2 <<EOF
error: Python 3.11, 3.12 or 3.13 is needed.
  looked for: $candidates
  found:${found:- none that runs}
  Install one of them (Debian and Ubuntu: python3 and python3-venv; macOS: brew install python@3.13; any: pyenv or uv),
  or name it: make setup PYTHON=/path/to/python3.13
EOF
exit 2
