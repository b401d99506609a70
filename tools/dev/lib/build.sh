# shellcheck shell=bash
# Configuring and building a preset of CMakePresets.json.
# shellcheck source=tools/dev/lib/packages.sh
source tools/dev/lib/packages.sh

# Short hash of the commit, "+" when the sources differ from it, empty outside git. Running as root in the folder of
# somebody else is the usual case here, hence safe.directory.
commit_name() {
  local git=(git --no-optional-locks -c safe.directory="$DGXMM_ROOT") hash
  hash=$("${git[@]}" rev-parse --short=10 HEAD 2>/dev/null) || return 0
  [ -z "$("${git[@]}" status --porcelain 2>/dev/null)" ] || hash+=+
  printf '%s\n' "$hash"
}

# configure PRESET ARGUMENT...: when it was not, or with something else. CMake itself notices changed CMake files.
configure() {
  local preset=$1 folder=build/$1 compiler wanted
  shift
  compiler=$(find_compiler) || die "no compiler: ./dev setup"
  set -- "-DCMAKE_CXX_COMPILER=$compiler" "-DCMAKE_C_COMPILER=$(c_compiler "$compiler")" "$@"
  wanted="$* $(sha256sum <CMakePresets.json)"
  if [ -f "$folder/build.ninja" ] && [ "$(cat "$folder/configured-with" 2>/dev/null)" = "$wanted" ]; then return; fi
  # Another compiler in the same folder makes CMake start over and forget what the preset says.
  if ! grep -qsxF "CMAKE_CXX_COMPILER:FILEPATH=$compiler" "$folder/CMakeCache.txt"; then rm -rf "$folder"; fi
  step "$preset-configure" "Configuring $preset" cmake --preset "$preset" "$@" || die "CMake refused"
  printf '%s' "$wanted" >"$folder/configured-with"
}

c_compiler() {
  case $1 in
    *clang++*) printf '%s\n' "${1/clang++/clang}" ;;
    *) printf '%s\n' "${1/g++/gcc}" ;;
  esac
}

# compile PRESET TARGET...: everything of a configured preset, or only the targets.
compile() {
  local preset=$1
  shift
  step "$preset-build" "Building $preset" ninja -C "build/$preset" -j "$(jobs_count)" "$@" ||
    die "the build of $preset failed"
}

# build_preset PRESET ARGUMENT...: arguments go to CMake.
build_preset() {
  configure "$@"
  compile "$1"
}

# Only what people use tells its commit: in the other presets a commit would cost a link each.
build_release() { build_preset release "-DDGXMM_COMMIT=$(commit_name)"; }
