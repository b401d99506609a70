# shellcheck shell=bash
# shellcheck source=tools/dev/lib/packages.sh
source tools/dev/lib/packages.sh

cmd_setup() { install_build_packages; }
