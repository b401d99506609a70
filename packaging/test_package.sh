#!/usr/bin/env bash
# test_package.sh FILE.deb: installs it in a fresh Debian root with apt, starts the daemon there and asks it.
set -euo pipefail

package=$1
root=$(mktemp -d /var/tmp/dgxmm-package.XXXXXX)
daemon=

clean_up() {
  [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
  for mount in "$root/proc" "$root/sys"; do
    ! mountpoint --quiet "$mount" || umount --recursive --lazy "$mount"
  done
  rm -rf --one-file-system "$root"
}
trap clean_up EXIT

# The release that the package was built on, from where this machine installs.
# shellcheck source=/dev/null
suite=$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")
# shellcheck disable=SC2016  # apt fills them in
mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE)' 2>/dev/null | awk -v suite="$suite" '$2 == suite {print $1; exit}')
debootstrap --variant=minbase "$suite" "$root" ${mirror:+"$mirror"}
# Whatever apt needs here to reach it.
cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
cp -r /etc/ssl/certs/. "$root/etc/ssl/certs/" 2>/dev/null || mkdir -p "$root/etc/ssl"
cp "$package" "$root/tmp/"
mount --types proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --make-rslave "$root/sys"

in_root() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }
in_root apt-get update
in_root apt-get install --yes --no-install-recommends "/tmp/$(basename "$package")"
in_root dgxmm version
in_root dgxmm budget

# As the unit starts it, on a port of its own.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
in_root env DGXMM_STATE_DIR=/var/lib/dgxmm "DGXMM_LISTEN=127.0.0.1:$port" dgxmm serve --config /etc/dgxmm/settings.toml &
daemon=$!
for _ in $(seq 100); do
  if in_root dgxmm --address "127.0.0.1:$port" budget --json >"$root/tmp/budget.json" 2>/dev/null &&
    grep --quiet '"source":"daemon"' "$root/tmp/budget.json"; then
    answered=yes
    break
  fi
  sleep 0.1
done
[ "${answered:-no}" = yes ] || { echo "the daemon does not answer" >&2; exit 1; }
python3 - "http://127.0.0.1:$port" <<'PYTHON'
import re, sys, urllib.request
page = urllib.request.urlopen(sys.argv[1] + "/").read().decode()
script = re.search(r'src="(/assets/[^"]+\.js)"', page)[1]
assert urllib.request.urlopen(sys.argv[1] + script).read(), "the page's script is empty"
PYTHON

# An upgrade keeps what the owner wrote.
echo 'safety_margin_gib = 9' >>"$root/etc/dgxmm/settings.toml"
in_root apt-get install --yes --reinstall "/tmp/$(basename "$package")"
grep --quiet 'safety_margin_gib = 9' "$root/etc/dgxmm/settings.toml"
# The root has no systemd of its own to find the targets in: only what is wrong with the unit itself counts.
if command -v systemd-analyze >/dev/null &&
  systemd-analyze verify --root="$root" dgxmm.service 2>&1 | grep --extended-regexp 'Unknown|Failed to parse|[Ii]nvalid'; then
  echo "systemd refuses the unit" >&2
  exit 1
fi
in_root apt-get purge --yes dgxmm
[ ! -e "$root/usr/bin/dgxmm" ]
echo "installed, started, upgraded and removed"
