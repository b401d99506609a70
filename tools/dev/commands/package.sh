# shellcheck shell=bash
# shellcheck source=tools/dev/lib/build.sh
source tools/dev/lib/build.sh
# shellcheck source=tools/dev/lib/engine.sh
source tools/dev/lib/engine.sh
# shellcheck source=tools/dev/lib/tests.sh
source tools/dev/lib/tests.sh

cmd_package() {
  [ $# -eq 0 ] || die "package takes nothing"
  install_build_packages
  ensure_packages dpkg-dev file debootstrap
  build_release
  rm -rf build/package
  mkdir -p build/package
  step package "Packing" cpack --config build/release/CPackConfig.cmake -B build/package || die "cpack refused"
  step package-test "Installing and starting it in a fresh root" packaging/test_package.sh build/package/dgxmm_*.deb ||
    die "the package does not work"
  if [ "$(id -u)" -eq 0 ]; then
    provide_docker
    ensure_packages curl
    docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null || ensure_packages docker-compose
    provide_engine
    provide_models
    step compose-test "Building the image and starting it by compose" packaging/test_compose.sh \
      build/package/dgxmm_*.deb "$DGXMM_LLAMA_SERVER" "$DGXMM_TEST_MODEL" || die "the image does not work"
  else
    say "the image is not tried: that takes a Docker Engine of the test's own, which only root can start"
  fi
  say build/package/dgxmm_*.deb
}
