#!/usr/bin/env bash
# The tests; arguments go to pytest, for example: ./scripts/test.sh tests/test_cli.py -x
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
install_project dev
cd "$root"
exec "$venv/bin/python" -m pytest -n 2 "$@"
