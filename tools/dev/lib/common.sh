# shellcheck shell=bash
# What every part of ./dev shares: talking to the person, running noisy commands, becoming root, installing packages.

DGXMM_ROOT=${DGXMM_ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd -P)}
DGXMM_LOG_DIR=$DGXMM_ROOT/build/log
mkdir -p "$DGXMM_LOG_DIR"

# Progress goes to stderr: some scripts print their answer, and only that, on stdout.
say() { printf '%s\n' "$*" >&2; }

die() {
  say "dev: $*"
  exit 1
}

# timed_step LOG TEXT COMMAND...: says TEXT, runs COMMAND with its output in build/log/LOG.log, says how long it took.
timed_step() {
  local log=$DGXMM_LOG_DIR/$1.log text=$2 start=$SECONDS status=0
  shift 2
  printf '%s ...' "$text" >&2
  "$@" >"$log" 2>&1 </dev/null || status=$?
  printf ' %d s\n' $((SECONDS - start)) >&2
  return $status
}

# step LOG TEXT COMMAND...: the same, and when it fails shows the end of the output.
step() {
  if timed_step "$@"; then return; fi
  tail -n 60 "$DGXMM_LOG_DIR/$1.log" >&2
  say "dev: this failed; the whole output is in $DGXMM_LOG_DIR/$1.log"
  return 1
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "installing packages needs root: run as root, or install sudo"
  fi
}

# retry COMMAND...: three tries, for what depends on a network.
retry() {
  local try
  for try in 1 2 3; do
    if "$@"; then return 0; fi
    [ "$try" -eq 3 ] || sleep $((try * 5))
  done
  return 1
}

cache_dir() { printf '%s\n' "${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/dgxmm"; }

# Parallel jobs: one a core, but never more than memory has room for (a compiler here stays below 700 MB).
jobs_count() {
  local cores available
  cores=$(nproc)
  available=$(awk '/^MemAvailable:/ {print int($2 / 1048576)}' /proc/meminfo)
  [ "$available" -ge 1 ] || available=1
  printf '%s\n' "${DGXMM_JOBS:-$((cores < available ? cores : available))}"
}

# --- packages --------------------------------------------------------------------------------------------------------

missing_packages() {
  local installed package
  # It fails when it does not know one of them; that one is missing.
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qxF -- "installed $package" <<<"$installed" || printf '%s\n' "$package"
  done
}

apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a \
    apt-get -y -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@"
}

# Lists of unknown age may lack packages, or name files that the mirror no longer has: read anew, once an hour.
refresh_package_lists() {
  local stamp=$DGXMM_LOG_DIR/package-lists-read
  if [ "${1:-}" != --now ] && [ -n "$(find "$stamp" -mmin -60 2>/dev/null)" ]; then return; fi
  step apt-update "Reading the package lists" retry apt_get update || die "the package lists could not be read"
  touch "$stamp"
}

install_packages() {
  local what=$*
  [ $# -le 5 ] || what="$# packages"
  step apt-install "Installing $what" apt_get install --no-install-recommends "$@"
}

# ensure_packages PACKAGE...: installs those that are missing; no apt call when none is.
ensure_packages() {
  local missing
  command -v dpkg-query >/dev/null || die "only Debian and Ubuntu are supported; install by hand: $*"
  mapfile -t missing < <(missing_packages "$@")
  [ "${#missing[@]}" -gt 0 ] || return 0
  refresh_package_lists
  if install_packages "${missing[@]}"; then return; fi
  say "Once more, with new package lists."
  refresh_package_lists --now
  install_packages "${missing[@]}" || die "packages could not be installed"
}
