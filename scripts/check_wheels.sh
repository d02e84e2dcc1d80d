#!/usr/bin/env bash
# Builds the wheels of trnfft-nki and nki-sim, installs each into an empty environment, and tries its
# first use in an empty folder: the Python code of README.md, the command trnfft, and the kernel of
# examples/own_kernel.py. The script needs .venv, which test.sh makes, and writes nothing into the checkout.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache # keeps the user's plans out
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_PROGRESS_BAR=off

# setuptools writes files beside the sources. So it builds from a copy of the files that git knows or
# would add.
mkdir "$work/sources" "$work/wheels"
cd "$root"
git ls-files --cached --others --exclude-standard -z | while IFS= read -r -d '' path; do
    if [ -e "$path" ]; then printf '%s\0' "$path"; fi
done | tar --create --null --files-from=- | tar --extract --directory "$work/sources"
for folder in . packages/nki_sim; do
    "$root/.venv/bin/python" -m build --wheel --no-isolation --outdir "$work/wheels" \
        "$work/sources/$folder" >"$work/build.log" 2>&1 || { cat "$work/build.log" && exit 1; }
done

# install_wheel NAME EXTRA PACKAGE...: makes an environment with the wheel, its extra and more packages, in
# which nothing of the checkout can be imported.
install_wheel() {
    local name=$1 extra=$2 python=$work/$1/bin/python
    shift 2
    "$root/.venv/bin/python" -m venv "$work/$name"
    "$python" -m pip install --quiet --constraint "$root/scripts/constraints.txt" \
        "$(echo "$work/wheels/$name"-*.whl)[$extra]" "$@"
    "$python" -m pip check
}

mkdir "$work/empty"
cd "$work/empty"

install_wheel nki_sim report
"$work/nki_sim/bin/nki-sim" --version
cp "$root/examples/own_kernel.py" .
"$work/nki_sim/bin/python" own_kernel.py

install_wheel trnfft_nki cli
"$work/trnfft_nki/bin/trnfft" --version
"$work/trnfft_nki/bin/trnfft" plan 1000
awk '/^```python/ {inside = 1; next} /^```/ {inside = 0} inside' "$root/README.md" >first_use.py
grep -q 'import torch, trnfft' first_use.py
"$work/trnfft_nki/bin/python" first_use.py
"$work/trnfft_nki/bin/trnfft" doctor
echo "both wheels install, and work outside of the checkout"
