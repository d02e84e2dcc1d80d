#!/usr/bin/env bash
# Runs the tests. Arguments go to pytest, for example: ./scripts/test.sh tests/test_sweeps.py -x
# The first argument can be one of these:
#   --all      runs whole sweeps, of which otherwise only a few cases run.
#   --changed  runs the tests that a change since their last run can break, by scripts/changed.py. Its first run
#              records which functions each test calls, as --changed --record does, which takes several minutes.
#   --processors  runs the tests that compare numbers with the kernels that libraries have for other processors,
#              by scripts/processors.py, and lists the errors that come nearest to their tolerance. With --short
#              it runs three settings that differ most.
#   --xla      runs tests/xla on the CPU device of PyTorch-XLA. These tests have an environment of their own,
#              because torch_xla 2.9 needs torch 2.9, and has wheels for Python 3.10 to 3.13 only.
#   --neuron   runs tests/neuron on a stand-in for TorchNeuron's device, which the tests build with the C++
#              compiler of the machine; installs transformers and its requirements. The tests run in processes
#              of their own, and twice: on a device that refuses complex numbers, and on one that stores them.
#   --others   runs the tests of other packages with trnfft in the place of torch's transforms. It takes half an
#              hour, names of packages and arguments of pytest: ./scripts/test.sh --others julius kymatio -x
#              Before the names, --mode split lets the CPU stand for a device without complex storage, and
#              --mode unpatched runs the tests without trnfft. scripts/others has the pins of the packages and
#              the known differences. Needs git, the network and Python 3.11 or newer.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
cd "$root"
if [ "${1:-}" = --neuron ]; then
    shift
    install_project dev
    install_project hugging-face
    set -- tests/neuron "$@"
    TRNFFT_STAND_IN_COMPLEX=1 "$venv/bin/python" -m pytest -n 2 --dist loadgroup "$@"
fi
if [ "${1:-}" = --others ]; then
    shift
    venv=$root/.venv-others
    wanted_python="Python 3.11 or newer"
    fitting_python='import sys; assert sys.version_info >= (3, 11)'
    install_project others
    PYTHONPATH=$root/scripts exec "$venv/bin/python" -m others "$@"
fi
if [ "${1:-}" = --all ]; then
    shift
    set -- -m "not slow" "$@"
fi
if [ "${1:-}" = --changed ] || [ "${1:-}" = --processors ]; then
    program=scripts/${1#--}.py
    shift
    install_project dev
    exec "$venv/bin/python" "$program" "$@"
fi
if [ "${1:-}" != --xla ]; then
    install_project dev
    exec "$venv/bin/python" -m pytest -n 2 --dist loadgroup "$@"
fi
shift
venv=$root/.venv-xla
constraints=$root/scripts/constraints-xla.txt
wanted_python="Python 3.10 to 3.13"
fitting_python='import sys; assert (3, 10) <= sys.version_info < (3, 14)'
install_project xla
export PJRT_DEVICE=CPU
exec "$venv/bin/python" -m pytest tests/xla "$@"
