#!/usr/bin/env bash
# vllm_double_image.sh VLLM_DOUBLE.py: writes the root of an image to stdout, as tar. It has the system's own Python, and
# the double of vLLM in the places where images of the real one have it: as `vllm`, and as the module of its server; and
# an entrypoint that runs its arguments, as NVIDIA's does.
set -euo pipefail

double=$1
tests=$(dirname "$(dirname "$double")")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

python=$(readlink -f /usr/bin/python3)
library=/usr/lib/$(basename "$python")
mapfile -t shared < <(ldd "$python" /usr/bin/env "$library"/lib-dynload/*.so 2>/dev/null |
  grep -oE '/[^ :)]+\.so[^ :)]*' | grep -v "^$library" | sort -u)
cp --parents --dereference "$python" /usr/bin/env "${shared[@]}" "$root"
ln -s "$(basename "$python")" "$root/usr/bin/python3"
mkdir -p "$root$library" "$root/tmp"
tar --create --directory "$library" --exclude=test --exclude=__pycache__ --exclude='config-*' . |
  tar --extract --directory "$root$library"

mkdir -p "$root/opt/vllm/tools" "$root/opt/vllm/unit/core/engine/data" "$root/opt/nvidia" "$root/usr/local/bin" \
  "$root/usr/lib/python3/dist-packages/vllm/entrypoints/openai"
cp "$double" "$root/opt/vllm/tools/"
cp "$tests"/unit/core/engine/data/vllm-*.log "$root/opt/vllm/unit/core/engine/data/"
ln -s /opt/vllm/tools/vllm_double.py "$root/usr/local/bin/vllm"
ln -s /opt/vllm/tools/vllm_double.py "$root/usr/lib/python3/dist-packages/vllm/entrypoints/openai/api_server.py"
printf '#!/usr/bin/python3\nimport os, sys\nos.execvp(sys.argv[1], sys.argv[1:])\n' >"$root/opt/nvidia/nvidia_entrypoint.sh"
chmod +x "$root/opt/nvidia/nvidia_entrypoint.sh"
tar --create --directory "$root" .
