# shellcheck shell=bash
# The pages of docs/ as a site in build/docs-site. A broken link is an error.

check_links() { python3 tools/check_links.py; }

cmd_docs() {
  [ $# -eq 0 ] || die "docs takes no arguments"
  ensure_packages mkdocs mkdocs-material
  step docs-links "Checking links" check_links || exit 1
  step docs-site "Building the site" mkdocs build --strict --clean --quiet || exit 1
  say "build/docs-site/index.html (with the search: python3 -m http.server -d build/docs-site)"
}
