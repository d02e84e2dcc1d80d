#!/usr/bin/env bash
# Spectrum of a recording (an ECG unless a WAV, .npy or .csv file is given), transformed on a
# simulated NeuronCore. Writes spectrum.png in the current folder.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
install_project demo
exec "$venv/bin/trnfft" spectrum "$@"
