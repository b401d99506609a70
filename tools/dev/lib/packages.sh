# shellcheck shell=bash
# Which packages building takes, and which compiler is used.

# Debian 12 has Boost 1.81 beside an older default; later releases have 1.83.
boost_package() {
  # shellcheck source=/dev/null
  case $(. /etc/os-release && printf '%s-%s' "$ID" "${VERSION_ID:-}") in
    debian-12) printf 'libboost1.81-dev\n' ;;
    *) printf 'libboost1.83-dev\n' ;;
  esac
}

find_compiler() {
  local candidate
  if [ -n "${CXX:-}" ]; then
    command -v "$CXX" || die "CXX names no program: $CXX"
    return
  fi
  for candidate in clang++-19 g++-14 g++-13; do
    if command -v "$candidate"; then return; fi
  done
  return 1
}

using_clang() { [[ $(find_compiler) == *clang* ]]; }

has_candidate() { [[ $(apt-cache policy "$1" 2>/dev/null) == *'Candidate: '[^\(]* ]]; }

# g++ 12 miscompiles coroutines (cmake/compiler.cmake), so Debian 12 needs clang; Ubuntu 24.04 has either.
compiler_packages() {
  if find_compiler >/dev/null; then
    if using_clang && [ -z "${CXX:-}" ]; then printf 'clang-19 libclang-rt-19-dev\n'; fi
    return
  fi
  refresh_package_lists
  if has_candidate clang-19; then
    printf 'clang-19 libclang-rt-19-dev\n'
  elif has_candidate g++-13; then
    printf 'g++-13\n'
  else
    die "neither clang-19 nor g++-13 is to be had here: install one and name it in CXX"
  fi
}

announce_boost_swap() {
  [ "$1" = libboost1.81-dev ] && [ -n "$(missing_packages "$1")" ] || return 0
  [ -n "$(missing_packages libboost1.74-dev)" ] ||
    say "libboost1.81-dev replaces libboost1.74-dev: the two cannot be installed together, and 1.74 is too old."
}

# For the page. Another source's Node is good enough when it brings npm along.
node_packages() {
  local version
  version=$(node --version 2>/dev/null) || version=
  if [[ $version =~ ^v([0-9]+)\. ]] && command -v npm >/dev/null; then
    [ "${BASH_REMATCH[1]}" -ge 18 ] || die "the page needs Node.js 18 or newer, $(command -v node) is $version"
    return
  fi
  printf 'nodejs npm\n'
}

install_build_packages() {
  local boost compiler node packages
  compiler=$(compiler_packages)
  node=$(node_packages)
  boost=$(boost_package)
  packages=(
    ca-certificates cmake ninja-build ccache mold pkg-config python3
    "$boost" libfmt-dev libspdlog-dev libsqlite3-dev libsqlitecpp-dev libcli11-dev libtomlplusplus-dev
    prometheus-cpp-dev libsystemd-dev libncurses-dev tmux libgtest-dev libgmock-dev libbenchmark-dev
  )
  announce_boost_swap "$boost"
  # shellcheck disable=SC2086  # one word a package
  ensure_packages $compiler $node "${packages[@]}"
}
