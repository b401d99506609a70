# shellcheck shell=bash
# shellcheck source=tools/dev/lib/build.sh
source tools/dev/lib/build.sh

# fuzz_target PROGRAM SECONDS: new inputs go to build/fuzz/corpus, what fails to build/fuzz/failures.
fuzz_target() {
  local program=$1 seconds=$2 name corpus seeds=()
  name=$(basename "$program")
  name=${name#fuzz_}
  corpus=build/fuzz/corpus/$name
  mkdir -p "$corpus" build/fuzz/failures
  [ ! -d "tests/fuzz/corpus/$name" ] || seeds=("tests/fuzz/corpus/$name")
  step "fuzz-$name" "Fuzzing $name for $seconds s" "$program" "-max_total_time=$seconds" -timeout=10 \
    -rss_limit_mb=1024 -print_final_stats=1 "-artifact_prefix=build/fuzz/failures/$name-" "$corpus" "${seeds[@]}" ||
    return 1
  awk '/stat::number_of_executed_units/ {runs = $2} / cov: / {cov = $4} END {printf "  %s runs, %s edges\n", runs, cov}' \
    "$DGXMM_LOG_DIR/fuzz-$name.log" >&2
}

cmd_fuzz() {
  local seconds=${1:-60} programs program failed=()
  [[ $seconds =~ ^[0-9]+$ ]] || die "fuzz takes a whole number of seconds"
  install_build_packages
  using_clang || die "fuzzing needs clang: install clang-19 and libclang-rt-19-dev"
  ensure_packages llvm-19
  build_preset fuzz
  mapfile -t programs < <(find build/fuzz -type f -executable -name 'fuzz_*' | sort)
  [ "${#programs[@]}" -gt 0 ] || die "there are no fuzz targets"
  export ASAN_SYMBOLIZER_PATH=/usr/lib/llvm-19/bin/llvm-symbolizer
  for program in "${programs[@]}"; do
    fuzz_target "$program" "$seconds" || failed+=("$(basename "$program")")
  done
  [ "${#failed[@]}" -eq 0 ] || die "failed: ${failed[*]}; the inputs are in build/fuzz/failures"
  say "${#programs[@]} targets, nothing found"
}
