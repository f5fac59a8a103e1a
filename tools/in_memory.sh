#!/bin/sh
# Runs a command with its temporary files in memory, if there is room: tests write thousands of small files and
# wait for each to reach the disk. Elsewhere the command runs as it is. What failed tests wrote is kept on disk.
set -u

least_kb=8388608
prefix=/dev/shm/keyfold-tests

has_room() {
    [ -w /dev/shm ] || return 1
    free_kb=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
    # The file system says how much it may take, the kernel how much there is.
    memory_kb=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo 2>/dev/null)
    [ "${free_kb:-0}" -gt "$least_kb" ] && [ "${memory_kb:-0}" -gt "$least_kb" ]
}

# Containers often mount it so that nothing can be executed, which tests and native libraries need.
can_execute() {
    printf '#!/bin/sh\nexit 0\n' > "$1/executable" && chmod +x "$1/executable" && "$1/executable" 2>/dev/null
}

keep_failed() {
    kept=$(mktemp -d) && cp -r "$1"/pytest-of-* "$kept" 2>/dev/null && echo "files of failed tests: $kept" >&2
}

if ! has_room || ! directory=$(mktemp -d "$prefix-XXXXXX"); then
    exec "$@"
fi
if ! can_execute "$directory"; then
    rm -rf "$directory"
    exec "$@"
fi
trap 'rm -rf "$directory" || :' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
TMPDIR=$directory "$@"
status=$?
[ "$status" -eq 0 ] || keep_failed "$directory"
exit "$status"
