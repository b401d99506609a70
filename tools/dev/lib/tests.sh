# shellcheck shell=bash
# Running the tests of a preset.

# What the tests of preset $1 find in their environment, beside the engine and the models.
export_test_environment() {
  local symbolizer=/usr/lib/llvm-19/bin/llvm-symbolizer supp=$DGXMM_ROOT/tools/dev
  export DGXMM=$DGXMM_ROOT/build/$1/src/dgxmm
  export DGXMM_ACCURACY_DIR=$DGXMM_ROOT/build/test-results/accuracy
  [ ! -x "$symbolizer" ] || export ASAN_SYMBOLIZER_PATH=$symbolizer TSAN_SYMBOLIZER_PATH=$symbolizer
  export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:check_initialization_order=1
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
  [ ! -f "$supp/tsan.supp" ] || TSAN_OPTIONS+=:suppressions=$supp/tsan.supp
  [ ! -f "$supp/lsan.supp" ] || export LSAN_OPTIONS=suppressions=$supp/lsan.supp
}

# The tests start Docker Engines of their own. One that is installed, of whatever source, is good enough.
provide_docker() { command -v dockerd >/dev/null || ensure_packages docker.io; }

fetch_registry() (
  refresh_package_lists && mkdir -p "$1" && cd "$1" && retry apt-get download docker-registry &&
    dpkg-deb --extract docker-registry_*.deb . && rm docker-registry_*.deb
)

# A registry for the tests that pull images. Only its program is taken: the package would start a service. Without it
# they are skipped.
provide_registry() {
  local folder
  folder=$(cache_dir)/docker-registry
  if [ ! -x "$folder/usr/bin/docker-registry" ]; then
    step docker-registry "Getting a registry for images" fetch_registry "$folder" || return 0
  fi
  export DGXMM_TEST_REGISTRY=$folder/usr/bin/docker-registry
}

install_browser_packages() (cd tests/browser && npm ci --no-audit --no-fund)

# A browser, and what drives it, for the tests of the page. One that is installed is good enough. On Ubuntu the package
# is a snap, which does not run in every container: there DGXMM_TEST_CHROMIUM may name another Chromium or Chrome.
provide_browser() {
  local lock=tests/browser/node_modules/.package-lock.json
  if [ -z "${DGXMM_TEST_CHROMIUM:-}" ]; then
    command -v chromium >/dev/null || ensure_packages chromium
    DGXMM_TEST_CHROMIUM=$(command -v chromium)
    export DGXMM_TEST_CHROMIUM
  fi
  if [ ! -f $lock ] || [ tests/browser/package-lock.json -nt $lock ]; then
    step browser-tests "Installing what drives the browser" install_browser_packages
    touch $lock
  fi
}

# run_ctest PRESET NAME JOBS ARGUMENT...: one run of ctest; its results go to build/test-results/PRESET-NAME.xml.
run_ctest() {
  local preset=$1 name=$2 jobs=$3 results=build/test-results/$1-$2.xml
  shift 3
  # The results say more than ctest's exit code, which is 0 when there are no tests.
  timed_step "$preset-$name-tests" "Running the $name tests of $preset" \
    ctest --test-dir "build/$preset" --parallel "$jobs" --output-on-failure --timeout 600 \
    --output-junit "$DGXMM_ROOT/$results" "$@" || true
  python3 tools/dev/test_results.py "$results" >&2
}

# Two at a time where tests leave each other alone; end to end one by one, as they fill the memory of the host.
run_tests() {
  local preset=$1
  shift
  export_test_environment "$preset"
  mkdir -p build/test-results
  run_ctest "$preset" unit 2 --label-exclude '^(integration|e2e)$' "$@"
  run_ctest "$preset" integration 2 --label-regex '^integration$' "$@"
  run_ctest "$preset" e2e 1 --label-regex '^e2e$' "$@"
}

# What the truth tests compared; nothing when none of them ran.
table_of_errors() { python3 tools/dev/accuracy.py build/test-results/accuracy tests/truth; }

# Names what failed, then says "N passed, N failed", which machines read. Fails when a test did, or when none ran.
total_of_tests() { python3 tools/dev/test_results.py --total build/test-results/*.xml; }
