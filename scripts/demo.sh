#!/usr/bin/env bash
# Transforms a recording on a simulated NeuronCore, and writes spectrum.png into the current folder.
# The recording is a .wav, .npy or .csv file; without a file it is an electrocardiogram. The options
# are those of `trnfft spectrum`.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
install_project demo
exec "$venv/bin/trnfft" spectrum "$@"
