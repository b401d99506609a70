#!/usr/bin/env bash
# Runs the benchmarks and writes bench/RESULTS.md; `./dev bench` calls it with everything built. Options: --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

: "${DGXMM:?}" "${DGXMM_BENCH_DIR:?}" "${DGXMM_LLAMA_SERVER:?}" "${DGXMM_TEST_MODEL:?}"
exec python3 bench/measure.py "$@"
