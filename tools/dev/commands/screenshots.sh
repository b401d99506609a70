# shellcheck shell=bash
# shellcheck source=tools/dev/lib/build.sh
source tools/dev/lib/build.sh
# shellcheck source=tools/dev/lib/engine.sh
source tools/dev/lib/engine.sh
# shellcheck source=tools/dev/lib/tests.sh
source tools/dev/lib/tests.sh

cmd_screenshots() {
  install_build_packages
  provide_engine
  provide_models
  provide_browser
  build_preset dev
  export_test_environment dev
  timed_step screenshots "Taking the pictures" node tests/browser/screenshots.mjs docs/screenshots
  say "docs/screenshots"
}
