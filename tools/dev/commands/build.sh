# shellcheck shell=bash
# shellcheck source=tools/dev/lib/build.sh
source tools/dev/lib/build.sh

cmd_build() {
  install_build_packages
  build_release
  say "build/release/src/dgxmm"
}
