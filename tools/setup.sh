#!/bin/sh
# Makes .venv from uv.lock, installs Java, and builds the console; with `tests`, installs what else tests start. Needs any
# Python 3; run by make, from the checkout.
set -eu
cd "$(dirname "$0")/.."

say() { echo "setup: $*" >&2; }
fail() { say "$*"; exit 1; }
root() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

# Like pip, uv is to trust what the machine trusts, which may have a certificate of its own.
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-true}"

updated=
apt() {
    [ "$updated" ] || { say "apt-get update"; apt-get update -qq >&2; updated=yes; }
    say "apt-get install $1"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >&2
}

# uv: the one on PATH, else one of our own in .venv-tools.
find_uv() {
    command -v uv && return
    if [ ! -x .venv-tools/bin/uv ]; then
        command -v python3 >/dev/null || fail "no python3 on PATH; install Python 3.11 or newer"
        if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
            root || fail "Python's venv module is missing; install it (Debian, Ubuntu: apt-get install python3-venv) or put uv on PATH"
            apt python3-venv || fail "apt-get could not install python3-venv; see above, or put uv on PATH"
        fi
        say "installing uv into .venv-tools"
        rm -rf .venv-tools
        python3 -m venv .venv-tools >&2
        .venv-tools/bin/python -m pip install --quiet uv >&2 || fail "pip could not install uv; see above, or put uv on PATH"
    fi
    echo "$PWD/.venv-tools/bin/uv"
}

# PySpark 4.3 runs on Python 3.11 to 3.14. The one in .venv is kept, so that a sync does not start over.
find_python() {
    for name in .venv/bin/python python3 python3.13 python3.12 python3.11; do
        "$name" -c 'import sys
if not (3, 11) <= sys.version_info[:2] <= (3, 14): sys.exit(1)
print(sys.executable)' 2>/dev/null && return
    done
    return 1
}

get_python() {
    say "no Python 3.11 to 3.14 here: asking uv for one"
    "$uv" python install 3.12 >&2 && echo 3.12 && return
    if root; then apt python3.12 || apt python3.11 || true; fi
    find_python || fail "PySpark 4.3 needs Python 3.11 or newer, and none could be fetched; install python3.11, python3.12 or python3.13 and run this again"
}

make_venv() {
    uv=$(find_uv)
    python=$(find_python) || python=$(get_python)
    # Compiled, as pip does it: where PYTHONDONTWRITEBYTECODE is set, every process would compile all it imports.
    UV_PROJECT_ENVIRONMENT="$PWD/.venv" "$uv" sync --frozen --all-extras --quiet --compile-bytecode --python "$python"
}

java_version() {
    "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
}

has_java() { [ "$(java_version)" ] && [ "$(java_version)" -ge 17 ]; }

see_to_java() {
    has_java && return
    [ -z "${JAVA_HOME:-}" ] || fail "JAVA_HOME=$JAVA_HOME has no Java 17 or newer; unset it or point it to one"
    root || fail "Spark needs Java 17 or newer; install it (Debian, Ubuntu: apt-get install openjdk-17-jre-headless) and run this again"
    # Releases of Debian without 17 have a newer one.
    for package in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do
        apt "$package" && break
        say "there is no $package here"
    done
    has_java || fail "Spark needs Java 17 or newer, and apt-get could not install one; see above"
}

# For tests of views in PostgreSQL, which start servers of their own: Debian would start one now and with the machine.
get_postgresql() {
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null && return
    if ! root; then
        say "no PostgreSQL server here: its tests will be skipped (Debian, Ubuntu: apt-get install postgresql)"
        return
    fi
    config=/etc/postgresql-common/createcluster.conf no=create_main_cluster=false
    apt postgresql-common && echo "$no" >>$config && apt postgresql || say "apt-get could not install postgresql; its tests will be skipped"
    [ ! -e $config ] || sed -i "/^$no\$/d" $config
}

# What tests of the console show its pages in; nothing else needs it.
get_chromium() {
    command -v chromium >/dev/null || command -v chromium-browser >/dev/null && return
    if root && apt chromium; then return; fi
    say "no Chromium here: the tests of the console skip"
}

if [ "${1:-}" = tests ]; then
    get_postgresql
    get_chromium
    exit
fi
make_venv
see_to_java
tools/console.sh
