# shellcheck shell=bash
# shellcheck source=tools/dev/lib/build.sh
source tools/dev/lib/build.sh
# shellcheck source=tools/dev/lib/sources.sh
source tools/dev/lib/sources.sh

check_format() { cpp_files | xargs -0 -r clang-format-19 --dry-run -Werror; }

# Only the files whose text, headers, command or settings changed since they were last found clean.
check_tidy() {
  configure dev && ninja -C build/dev build.ninja && # notices new and removed files
    python3 tools/dev/tidy.py build/dev/compile_commands.json build/lint "$(jobs_count)"
}

check_shell() { shell_files | xargs -0 shellcheck -x; }

# Where this machine gets its packages from: the hosts of apt, pip and npm as they are set up here, and pip's own.
registry_hosts() {
  # shellcheck disable=SC2016  # apt's placeholder
  {
    apt-get indextargets --format '$(SITE)' 2>/dev/null
    python3 -m pip config list 2>/dev/null
    printf '%s\n' "${PIP_INDEX_URL:-}" "${PIP_EXTRA_INDEX_URL:-}" "${NPM_CONFIG_REGISTRY:-}"
    ! command -v npm >/dev/null || npm config get registry
    python3 -c 'from pip._internal.models.index import PyPI as p; print(p.url, "//" + p.file_storage_domain)' 2>/dev/null
  } | grep -oE '//[^/@ "'\'']+' | sed -E 's,^//,,; s,:[0-9]+$,,' | grep -F . | sort -u
}

# The repository stands alone: no file names its neighbours, the folder it happens to lie in, or a registry's host.
check_references() {
  local found=0
  mapfile -t hosts < <(registry_hosts)
  all_files | xargs -0 grep -nIE '\.\./share[d]\b' && found=1
  # shellcheck disable=SC2046  # one -e an entry
  all_files | xargs -0 grep -nIF -e "$DGXMM_ROOT/" $(printf -- '-e %s ' "${hosts[@]}") && found=1
  return $found
}

cmd_lint() {
  local failed=() check
  install_build_packages
  ensure_packages clang-format-19 clang-tidy-19 shellcheck
  run_check() {
    check=$1
    shift
    step "lint-${check// /-}" "Checking $check" "$@" || failed+=("$check")
  }
  run_check "which folder includes which" python3 tools/check_layers.py
  run_check "links between pages" python3 tools/check_links.py
  run_check "messages that pages quote" python3 tools/check_quotes.py
  run_check references check_references
  run_check "shell scripts" check_shell
  run_check formatting check_format
  run_check clang-tidy check_tidy
  [ "${#failed[@]}" -eq 0 ] || die "lint found something: $(printf '%s; ' "${failed[@]}" | sed 's/; $//')"
  say "clean"
}
