#!/usr/bin/env bash
# Prints a JAVA_HOME that Spark can use (Java 17 or newer) on stdout; everything else goes to stderr.
# Looks in JAVA_HOME, on PATH and under /usr/lib/jvm, then installs Debian's headless JRE if it may.
set -euo pipefail

readonly MIN_MAJOR=17

# The major version of the Java at home $1, or nothing if there is none.
major_of() {
    [[ -x "$1/bin/java" ]] || return 0
    "$1/bin/java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1 || true
}

is_usable() {
    local major
    major="$(major_of "$1")"
    [[ -n "$major" && "$major" -ge "$MIN_MAJOR" ]]
}

# Candidate homes, best first.
candidates() {
    local java home
    if [[ -n "${JAVA_HOME:-}" ]]; then
        printf '%s\n' "$JAVA_HOME"
    fi
    if java="$(command -v java)"; then
        java="$(readlink -f "$java")"
        printf '%s\n' "${java%/bin/java}"
    fi
    for home in /usr/lib/jvm/*; do
        if [[ -d "$home" ]]; then
            printf '%s\n' "$home"
        fi
    done
}

print_home() {
    local home
    while IFS= read -r home; do
        if is_usable "$home"; then
            printf '%s\n' "$home"
            return 0
        fi
    done < <(candidates)
    return 1
}

give_up() {
    cat >&2 <<MESSAGE
unskew: no Java $MIN_MAJOR or newer was found, and it could not be installed from here ($1).
Install one and run the command again:
    Debian, Ubuntu   sudo apt-get update && sudo apt-get install default-jre-headless
    Fedora           sudo dnf install java-latest-openjdk-headless
    macOS            brew install openjdk@17
If it is installed in an unusual place, set JAVA_HOME to the directory that contains bin/java.
MESSAGE
    exit 1
}

install_java() {
    local as_root=() package
    command -v apt-get >/dev/null || give_up "there is no apt-get"
    if [[ "$(id -u)" -ne 0 ]]; then
        if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
            give_up "that needs root or sudo without a password"
        fi
        as_root=(sudo -n)
    fi
    echo "unskew: no Java $MIN_MAJOR or newer was found; installing a headless JRE with apt-get" >&2
    "${as_root[@]}" apt-get update >&2 || give_up "apt-get update failed"
    # The exact package first: default-jre-headless may be older than Spark needs.
    for package in openjdk-17-jre-headless default-jre-headless; do
        if "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install --yes --no-install-recommends "$package" >&2; then
            return 0
        fi
    done
    give_up "apt-get install failed"
}

print_home && exit 0
install_java
print_home || give_up "the installed Java is older than $MIN_MAJOR"
