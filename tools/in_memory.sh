#!/bin/sh
# Runs a command with its temporary files in memory, if there is room: tests write thousands of small files and
# wait for each to reach the disk. Elsewhere the command runs as it is.
set -eu

least_kb=8388608
free_kb=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
if [ -w /dev/shm ] && [ "${free_kb:-0}" -gt "$least_kb" ]; then
    TMPDIR=$(mktemp -d /dev/shm/keyfold-XXXXXX)
    export TMPDIR
    trap 'rm -rf "$TMPDIR"' EXIT
    trap 'exit 130' INT TERM
fi
"$@"
