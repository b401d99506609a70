# shellcheck shell=bash
# shellcheck source=tools/dev/lib/build.sh
source tools/dev/lib/build.sh

# fuzz_target PROGRAM SECONDS: starts from made seeds and from inputs that once failed; new inputs go to
# build/fuzz/corpus, what fails to build/fuzz/failures.
fuzz_target() {
  local program=$1 seconds=$2 name folder corpora=()
  name=$(basename "$program")
  mkdir -p "build/fuzz/corpus/$name" build/fuzz/failures
  for folder in "build/fuzz/corpus/$name" "build/fuzz/seeds/$name" "tests/fuzz/corpus/$name"; do
    [ ! -d "$folder" ] || corpora+=("$folder")
  done
  step "$name" "Running $name for $seconds s" "$program" "-max_total_time=$seconds" -timeout=10 \
    -rss_limit_mb=1024 -print_final_stats=1 "-artifact_prefix=build/fuzz/failures/$name-" "${corpora[@]}" || return 1
  awk '/stat::number_of_executed_units/ {runs = $2} / cov: / {cov = $4} END {printf "  %s runs, %s edges\n", runs, cov}' \
    "$DGXMM_LOG_DIR/$name.log" >&2
}

cmd_fuzz() {
  local seconds=${1:-60} programs program failed=()
  [[ $seconds =~ ^[0-9]+$ ]] || die "fuzz takes a whole number of seconds"
  install_build_packages
  using_clang || die "fuzzing needs clang: install clang-19 and libclang-rt-19-dev"
  ensure_packages llvm-19
  configure fuzz
  compile fuzz tests/fuzz/all
  build/fuzz/tests/fuzz/fuzz_seeds build/fuzz/seeds
  mapfile -t programs < <(find build/fuzz -type f -executable -name 'fuzz_*' ! -name fuzz_seeds | sort)
  [ "${#programs[@]}" -gt 0 ] || die "there are no fuzz targets"
  export ASAN_SYMBOLIZER_PATH=/usr/lib/llvm-19/bin/llvm-symbolizer
  for program in "${programs[@]}"; do
    fuzz_target "$program" "$seconds" || failed+=("$(basename "$program")")
  done
  [ "${#failed[@]}" -eq 0 ] || die "failed: ${failed[*]}; the inputs are in build/fuzz/failures"
  say "${#programs[@]} targets, nothing found"
}
