#!/usr/bin/env bash
# Runs make targets one after the other, up to the first that fails, and prints how long each took.
#     scripts/phases.sh NAME TARGET…
# Targets joined by commas run two at a time, the longest first: one of them uses about one core.
set -euo pipefail

readonly name="$1"
shift
summary=""

print_summary() {
    printf '\n%s\n%s  %-42s %5d s\n' "make $name" "$summary" "total" "$SECONDS"
}

for targets in "$@"; do
    printf '\n==> %s\n' "$targets"
    started=$SECONDS
    status=0
    # shellcheck disable=SC2086  # one word per target
    "${MAKE:-make}" --no-print-directory --jobs=2 --output-sync=target --keep-going ${targets//,/ } || status=$?
    outcome=""
    if [[ $status -ne 0 ]]; then
        outcome="  FAILED"
    fi
    summary+="$(printf '  %-42s %5d s%s' "$targets" "$((SECONDS - started))" "$outcome")"$'\n'
    if [[ $status -ne 0 ]]; then
        print_summary
        exit "$status"
    fi
done
print_summary
