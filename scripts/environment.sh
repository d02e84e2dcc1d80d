# demo.sh and test.sh source this file. It sets $root to the repository's folder, and $venv to an
# environment in which the project is installed with the wanted extra. It runs pip only when something
# changed since the last run.
#
#   PYTHON=/path/to/python3.12   uses this interpreter, not the first suitable one on PATH
#   PIP_EXTRA_INDEX_URL=...      pip's own variables work as usual

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# test.sh --xla and --others set these variables differently: the environment, its torch, and the suitable Pythons.
venv=$root/.venv
constraints=$root/scripts/constraints.txt
wanted_python="Python 3.10 or newer"
fitting_python='import sys; assert sys.version_info >= (3, 10)'

fail() {
    echo "$*" >&2
    exit 1
}

# Prints the first suitable Python; where python3 is outdated, the search goes on.
find_python() {
    local candidate candidates=(python3 python3.13 python3.12 python3.11 python3.10)
    if [ -n "${PYTHON:-}" ]; then candidates=("$PYTHON"); fi
    for candidate in "${candidates[@]}"; do
        if "$candidate" -c "$fitting_python" 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "trnfft needs $wanted_python here, and ${candidates[0]} is" \
        "$("${candidates[0]}" --version 2>/dev/null || echo missing):" \
        "install it, or name one: PYTHON=/path/to/python3.11 $0"
}

create_venv() {
    local python
    python=$(find_python) || exit 1
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$python cannot create virtual environments: install python3-venv" \
            "(Debian, Ubuntu: sudo apt install python3-venv) and run $0 again."
    echo "creating $(basename "$venv") with $("$python" --version)"
    "$python" -m venv --clear "$venv" || fail "$venv could not be created: see the message above."
}

# follow_pip LOG: copies pip's output into LOG and, on a terminal, shows the latest line.
follow_pip() {
    local line log=$1
    while IFS= read -r line; do
        echo "$line" >>"$log"
        if [ -t 1 ]; then printf '\r\033[K%.70s' "$line"; fi
    done
    if [ -t 1 ]; then printf '\r\033[K'; fi
}

# pip_install ARGUMENT...
pip_install() {
    "$venv/bin/python" -m pip install --no-input --disable-pip-version-check --progress-bar off \
        --no-compile "$@"
}

# install_pinned FILE: installs exactly the packages that FILE lists, from files with the hashes listed there,
# whatever index has them; then torch, whose build depends on the machine; then the project, without further
# packages. compileall uses all processors, where pip uses one; it ignores files that are no valid Python.
install_pinned() {
    pip_install --require-hashes --no-deps --only-binary :all: --requirement "$1" &&
        pip_install --constraint "$constraints" torch &&
        "$venv/bin/python" -m pip uninstall --yes trnfft && # the former name of this project
        pip_install --no-deps --no-build-isolation --editable "$root" || return 1
    "$venv/bin/python" -m compileall -q -j 0 "$venv/lib" >/dev/null 2>&1 || true
}

# install_project demo|dev|hugging-face|others|xla
install_project() {
    local extra=$1 key log=$venv/pip.log
    local requirements=$root/scripts/requirements-$extra.txt
    # An installation depends on the project's folder, its requirements and the pins.
    key="$root $(cat "$root/pyproject.toml" "$constraints" "$requirements" | cksum)"
    # An environment that is incomplete or does not run is made again.
    "$venv/bin/python" -c "$fitting_python; import pip" 2>/dev/null || create_venv
    # The dev extra contains the demo extra.
    local stamp
    for stamp in "$venv/installed-$extra" "$venv/installed-dev"; do
        if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$key" ]; then return; fi
    done

    echo "installing trnfft and the packages pinned for $extra (first run: a few minutes)"
    : >"$log"
    install_pinned "$requirements" 2>&1 | follow_pip "$log" ||
        fail "pip could not install the packages: $(grep -m1 -o 'ERROR: .*' "$log" || tail -n1 "$log")" \
            "Check the network and pip's index settings, then run $0 again. The log of pip: $log"
    echo "$key" >"$venv/installed-$extra"
    echo "installed"
}
