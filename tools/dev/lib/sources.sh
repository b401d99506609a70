# shellcheck shell=bash
# Lists of the repository's own files, each ended by a NUL byte.

existing() {
  local folder
  for folder in "$@"; do [ ! -d "$folder" ] || printf '%s\n' "$folder"; done
}

cpp_files() {
  local folders
  mapfile -t folders < <(existing src tests bench thirdparty)
  find "${folders[@]}" \( -name '*.h' -o -name '*.cpp' \) -type f -print0
}

shell_files() {
  local folders
  mapfile -t folders < <(existing tools packaging)
  printf '%s\0' dev .ci/run
  find "${folders[@]}" -name '*.sh' -type f -print0
}

# Everything that git tracks or would track.
all_files() {
  git -c safe.directory="$DGXMM_ROOT" ls-files -z --cached --others --exclude-standard --deduplicate 2>/dev/null ||
    find . -path ./build -prune -o -path ./.git -prune -o -type f -print0
}
