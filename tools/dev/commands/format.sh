# shellcheck shell=bash
# shellcheck source=tools/dev/lib/sources.sh
source tools/dev/lib/sources.sh

cmd_format() {
  ensure_packages clang-format-19
  cpp_files | xargs -0 clang-format-19 -i
}
