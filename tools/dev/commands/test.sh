# shellcheck shell=bash
# shellcheck source=tools/dev/lib/build.sh
source tools/dev/lib/build.sh
# shellcheck source=tools/dev/lib/engine.sh
source tools/dev/lib/engine.sh
# shellcheck source=tools/dev/lib/tests.sh
source tools/dev/lib/tests.sh
# shellcheck source=tools/dev/commands/fuzz.sh
source tools/dev/commands/fuzz.sh

cmd_test() {
  local sanitize=no long=no vllm=no filter=() presets=(dev) preset
  while [ $# -gt 0 ]; do
    case $1 in
      --sanitize) sanitize=yes ;;
      --long) long=yes ;;
      --vllm) vllm=yes ;;
      --filter)
        [ $# -ge 2 ] || die "--filter takes a regular expression"
        filter=(--tests-regex "$2")
        shift
        ;;
      *) die "unknown option of test: $1" ;;
    esac
    shift
  done
  install_build_packages
  if [ $sanitize = yes ]; then
    presets=(asan tsan)
    if using_clang; then ensure_packages llvm-19; fi
  fi
  provide_docker
  provide_registry
  provide_engine
  provide_models
  [ $sanitize = yes ] || provide_browser # the page is not in the instrumented builds
  [ $vllm = no ] || provide_vllm
  rm -rf build/test-results
  for preset in "${presets[@]}"; do
    build_preset "$preset"
    run_tests "$preset" "${filter[@]}"
  done
  table_of_errors
  [ $long = no ] || cmd_fuzz 60
  total_of_tests
}
