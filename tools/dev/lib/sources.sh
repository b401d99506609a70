# shellcheck shell=bash
# Lists of the repository's own files, each ended by a NUL byte.

cpp_files() { find src tests bench thirdparty \( -name '*.h' -o -name '*.cpp' \) -type f -print0; }

shell_files() {
  local folders=(tools)
  [ ! -d packaging ] || folders+=(packaging)
  printf '%s\0' dev .ci/run
  find "${folders[@]}" -name '*.sh' -type f -print0
}

# Everything that git tracks or would track.
all_files() {
  git -c safe.directory="$DGXMM_ROOT" ls-files -z --cached --others --exclude-standard --deduplicate 2>/dev/null ||
    find . -path ./build -prune -o -path ./.git -prune -o -type f -print0
}
