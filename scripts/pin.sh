#!/usr/bin/env bash
# Renews scripts/requirements-*.txt: exact versions of all packages that the scripts and workflows install,
# for every supported Python, each with the hashes of its files on the public index. The script needs uv.
#
#   ./scripts/pin.sh             after a change to pyproject.toml; all other pins stay
#   ./scripts/pin.sh --upgrade   pins the newest versions that are compatible with each other
#
# The files leave out torch, and the CUDA libraries that only torch needs. The suitable build of torch depends
# on the machine, and the CPU builds of download.pytorch.org, with versions like 2.13.0+cpu, are other files
# than those of the public index. scripts/constraints*.txt pin the version of torch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cuda=(cuda-{bindings,pathfinder,toolkit}
    nvidia-{cublas,cuda-cupti,cuda-nvrtc,cuda-runtime,cudnn,cufft,cufile,curand}{,-cu12,-cu13}
    nvidia-{cusolver,cusparse,cusparselt,nccl,nvjitlink,nvshmem,nvtx}{,-cu12,-cu13})

# pin NAME PYTHON OPTION...: writes scripts/requirements-NAME.txt.
pin() {
    local name=$1 python=$2
    shift 2
    uv pip compile "$@" "${upgrade[@]}" --quiet --universal --python-version "$python" --generate-hashes \
        --default-index https://pypi.org/simple --no-annotate --custom-compile-command ./scripts/pin.sh \
        $(printf -- '--no-emit-package %s ' torch triton "${cuda[@]}") \
        --output-file "scripts/requirements-$name.txt"
}

upgrade=("$@")
pin dev 3.10 pyproject.toml --extra dev --constraint scripts/constraints.txt
upgrade=() # the other files use the versions of the first
pinned=(--constraint scripts/constraints.txt --constraint scripts/requirements-dev.txt)
# setuptools is pinned, too, because it builds the project without an isolated environment.
pin demo 3.10 pyproject.toml <(echo "setuptools>=77") --extra demo "${pinned[@]}"
pin simulator 3.10 <(printf '%s\n' numpy ml_dtypes allpairspy hypothesis jinja2 perfetto protobuf pytest pytest-xdist scipy) "${pinned[@]}"
# For tests/neuron. transformers 5.22 is the last version that accepts kernels 0.17; it needs Python 3.11.
pin hugging-face 3.10 <(printf '%s; python_version >= "3.11"\n' accelerate 'kernels==0.17.*' 'transformers==5.22.*') "${pinned[@]}"

# For ./scripts/test.sh --others: what the packages need, and their tests. scripts/others pins the packages.
pin others 3.11 pyproject.toml <(printf '%s\n' appdirs configparser expecttest flaky h5py hypothesis 'librosa<1' \
    opt_einsum packaging parameterized pytest resampy scipy 'setuptools>=77' tensorly tensorly-torch) "${pinned[@]}"

# torch_xla needs another torch, and so an environment of its own.
pin xla 3.10 pyproject.toml <(echo "setuptools>=77") --extra xla-dev --constraint scripts/constraints-xla.txt \
    --constraint scripts/requirements-dev.txt
