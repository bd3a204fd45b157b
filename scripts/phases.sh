#!/usr/bin/env bash
# Runs make targets one after the other, up to the first that fails, and prints how long each took.
#     scripts/phases.sh NAME TARGET…
set -euo pipefail

readonly name="$1"
shift
summary=""

print_summary() {
    printf '\n%s\n%s  %-14s %5d s\n' "make $name" "$summary" "total" "$SECONDS"
}

for target in "$@"; do
    printf '\n==> %s\n' "$target"
    started=$SECONDS
    status=0
    "${MAKE:-make}" --no-print-directory "$target" || status=$?
    outcome=""
    if [[ $status -ne 0 ]]; then
        outcome="  FAILED"
    fi
    summary+="$(printf '  %-14s %5d s%s' "$target" "$((SECONDS - started))" "$outcome")"$'\n'
    if [[ $status -ne 0 ]]; then
        print_summary
        exit "$status"
    fi
done
print_summary
