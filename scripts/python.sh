#!/usr/bin/env bash
# Prints a Python of version 3.11 or newer: the one named as $1, or the first one found on PATH.
set -euo pipefail

if [[ $# -gt 0 ]]; then
    candidates=("$1")
else
    candidates=(python3.11 python3 python3.12 python3.13)
fi

# Runs each one rather than trusting its name: version managers leave shims that only print an error.
for python in "${candidates[@]}"; do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        command -v "$python"
        exit 0
    fi
done

echo "unskew: Python 3.11 or newer is needed; tried: ${candidates[*]}." >&2
echo "Install it (Debian, Ubuntu: apt-get install python3 python3-venv) or run: make PYTHON=/path/to/python …" >&2
exit 1
