# shellcheck shell=bash
# shellcheck source=tools/dev/lib/build.sh
source tools/dev/lib/build.sh
# shellcheck source=tools/dev/lib/engine.sh
source tools/dev/lib/engine.sh

HF_MEM=0.5.6
PEERS=$DGXMM_ROOT/build/peers

# The module wants Go 1.22, which Ubuntu 24.04 has and Debian 12 has not.
find_go() {
  local candidate
  for candidate in "$(command -v go)" /usr/local/go/bin/go /usr/lib/go-1.*/bin/go; do
    if [ -x "$candidate" ] && [[ $("$candidate" env GOVERSION) =~ ^go1\.(2[2-9]|[3-9][0-9]) ]]; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  return 1
}

install_go() {
  if find_go >/dev/null; then return; fi
  refresh_package_lists
  has_candidate golang-1.22-go || return 1
  ensure_packages golang-1.22-go
  find_go >/dev/null
}

# Each of these prints the program, or says why there is none. What stands in go.sum is checked.
provide_gguf_parser() {
  local go
  if ! install_go; then
    say "gguf-parser is left out: there is no Go 1.22 here, nor a package of it"
    return
  fi
  go=$(find_go)
  step peer-gguf-parser "Building gguf-parser" \
    env -C tools/dev/peers/gguf_parser GOFLAGS=-mod=readonly "$go" build -o "$PEERS/gguf_parser" . || return 0
  printf '%s\n' "$PEERS/gguf_parser"
}

install_hf_mem() {
  python3 -m venv "$PEERS/hf-mem" && "$PEERS/hf-mem/bin/python" -m pip install -q "hf-mem==$HF_MEM"
}

provide_hf_mem() {
  python3 -c 'import ensurepip' 2>/dev/null || ensure_packages python3-venv
  step peer-hf-mem "Installing hf-mem" retry install_hf_mem || return 0
  printf '%s\n' "$PEERS/hf-mem/bin/python"
}

write_accuracy_rows() {
  build/dev/tests/core_tests --gtest_brief=1 --gtest_filter='*Truth*' &&
    build/dev/tests/integration_tests --gtest_brief=1 --gtest_filter='*LlamaCppLive*'
}

cmd_accuracy() {
  local rows=$PEERS/rows models=$PEERS/models gguf_parser hf_mem fit_params
  [ $# -eq 0 ] || die "accuracy takes no arguments"
  install_build_packages
  configure dev
  compile dev core_tests integration_tests write_models dgxmm
  provide_engine
  provide_models
  rm -rf "$rows" "$models"
  mkdir -p "$PEERS"
  export DGXMM=$DGXMM_ROOT/build/dev/src/dgxmm DGXMM_ACCURACY_DIR=$rows
  step accuracy-rows "Comparing with what was measured, and with the engine" write_accuracy_rows || die "an estimate is wrong"
  build/dev/tests/write_models tests/truth "$models"
  gguf_parser=$(provide_gguf_parser)
  hf_mem=$(provide_hf_mem)
  fit_params=$(tools/dev/llama_server.sh --fit-params) || say "llama-fit-params is left out"
  step accuracy-page "Asking the peers" sh -c '"$@" >build/peers/accuracy.md' sh python3 tools/dev/peers/compare.py \
    --rows "$rows" --models "$models" --commit "$(commit_name)" --gguf-parser "$gguf_parser" --hf-mem "$hf_mem" \
    --fit-params "$fit_params" || die "docs/accuracy.md is as it was"
  mv build/peers/accuracy.md docs/accuracy.md
  rm -rf "$models"
  python3 tools/dev/accuracy.py "$rows" tests/truth
  say "docs/accuracy.md"
}
