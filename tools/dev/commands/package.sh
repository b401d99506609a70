# shellcheck shell=bash
# shellcheck source=tools/dev/lib/build.sh
source tools/dev/lib/build.sh

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
  say build/package/dgxmm_*.deb
}
