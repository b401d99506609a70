# shellcheck shell=bash
# shellcheck source=tools/dev/lib/build.sh
source tools/dev/lib/build.sh
# shellcheck source=tools/dev/lib/engine.sh
source tools/dev/lib/engine.sh

# configured NAME: is the setting given in the environment or in the settings file?
configured() {
  local file=${XDG_CONFIG_HOME:-$HOME/.config}/dgxmm/settings.toml variable=DGXMM_${1^^}
  [ -f "$file" ] || file=/etc/dgxmm/settings.toml
  [ -n "${!variable:-}" ] || { [ -f "$file" ] && grep -qE "^[[:space:]]*$1[[:space:]]*=" "$file"; }
}

# Arguments go to the tour. A model folder and an engine that are configured are used as they are.
cmd_run() {
  install_build_packages
  build_release
  configured llama_server || provide_engine
  if ! configured model_folders; then
    provide_models
    export DGXMM_MODEL_FOLDERS=$DGXMM_TEST_MODELS_DIR
  fi
  export DGXMM=$DGXMM_ROOT/build/release/src/dgxmm
  exec tools/dev/tour.sh "$@"
}
