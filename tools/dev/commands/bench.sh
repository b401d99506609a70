# shellcheck shell=bash
# shellcheck source=tools/dev/lib/build.sh
source tools/dev/lib/build.sh
# shellcheck source=tools/dev/lib/engine.sh
source tools/dev/lib/engine.sh

# Arguments go to the benchmark script.
cmd_bench() {
  install_build_packages
  build_preset bench "-DDGXMM_COMMIT=$(commit_name)"
  provide_engine
  provide_models
  export DGXMM=$DGXMM_ROOT/build/bench/src/dgxmm DGXMM_BENCH_DIR=$DGXMM_ROOT/build/bench DGXMM_COMMIT
  DGXMM_COMMIT=$(commit_name)
  exec tools/dev/bench.sh "$@"
}
