# shellcheck shell=bash
# shellcheck source=tools/dev/lib/build.sh
source tools/dev/lib/build.sh
# shellcheck source=tools/dev/lib/engine.sh
source tools/dev/lib/engine.sh
# shellcheck source=tools/dev/lib/tests.sh
source tools/dev/lib/tests.sh

# Every program that the tests may have run, as arguments of llvm-cov: the first bare, the others after -object.
covered_programs() {
  local program first=yes
  while read -r program; do
    if [ $first = yes ]; then first=no; else printf -- '-object\n'; fi
    printf '%s\n' "$program"
  done < <(find build/coverage/src build/coverage/tests -type f -executable ! -name '*.so*' | sort)
}

cmd_coverage() {
  local profiles=$DGXMM_ROOT/build/coverage/profiles data=build/coverage/all.profdata programs sources passed=yes
  install_build_packages
  using_clang || die "coverage needs clang: install clang-19"
  ensure_packages llvm-19
  build_preset coverage
  provide_engine
  provide_models
  rm -rf build/test-results "$profiles"
  # One file a program (%m), merged as tests end (%4): there are thousands of tests.
  LLVM_PROFILE_FILE="$profiles/%4m.profraw" run_tests coverage
  total_of_tests || passed=no
  step coverage-merge "Merging profiles" sh -c "llvm-profdata-19 merge -sparse -o $data $profiles/*.profraw" ||
    die "nothing was measured"
  mapfile -t programs < <(covered_programs)
  sources=(-instr-profile="$data" -ignore-filename-regex='/(tests|thirdparty|build)/|^/usr/' "${programs[@]}")
  step coverage-html "Writing the report" \
    llvm-cov-19 show -format=html -output-dir=build/coverage/html "${sources[@]}" || die "llvm-cov failed"
  llvm-cov-19 report "${sources[@]}" >build/coverage/report.txt
  # Columns of the last line: regions, functions, lines, branches; each as count, missed, percentage.
  awk '$1 == "TOTAL" {printf "lines %s, branches %s, functions %s\n", $10, $13, $7}' build/coverage/report.txt
  say "build/coverage/html/index.html and build/coverage/report.txt"
  [ $passed = yes ] || exit 1
}
