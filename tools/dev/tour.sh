#!/usr/bin/env bash
# A tour of dgxmm with a real engine and a real model; `./dev run` calls it with DGXMM (the program) set and the engine
# and the model folders configured. Serves until Ctrl-C, then stops what it started.
set -euo pipefail

: "${DGXMM:?}"
address=${DGXMM_LISTEN:-127.0.0.1:8484}
name=tour
daemon_log=$(mktemp)
daemon=

heading() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
show() {
  printf '\033[2m$ dgxmm %s\033[0m\n' "$*"
  "$DGXMM" "$@"
}

finish() {
  trap - EXIT INT TERM
  if [ -n "$daemon" ] && kill -0 "$daemon" 2>/dev/null; then
    printf '\nstopping %s and the daemon\n' "$name"
    "$DGXMM" stop "$name" >/dev/null 2>&1 || true
    kill "$daemon" 2>/dev/null || true
    wait "$daemon" 2>/dev/null || true
  fi
  rm -f "$daemon_log"
}
trap finish EXIT
trap 'exit 0' INT TERM

# A small host gets small margins: the usual 12 GiB would leave nothing of it.
margins=()
total_kib=$(awk '/^MemTotal:/ {print $2}' /proc/meminfo)
if [ "$total_kib" -lt $((22 * 1024 * 1024)) ] && [ -z "${DGXMM_SAFETY_MARGIN_GIB:-}" ]; then
  margins=(--safety-margin-gib 1 --os-reserve-gib 1)
  echo "this host has less than 22 GiB: the tour keeps 2 GiB back instead of 12"
fi

heading "The daemon, on loopback"
# In a session of its own, so that Ctrl-C reaches this script alone and the engine is stopped in order.
setsid "$DGXMM" serve --calibration-delay-s 3 "${margins[@]}" >"$daemon_log" 2>&1 &
daemon=$!
for _ in $(seq 100); do
  "$DGXMM" version --json >/dev/null 2>&1 && "$DGXMM" ps >/dev/null 2>&1 && break
  if ! kill -0 "$daemon" 2>/dev/null; then
    cat "$daemon_log" >&2
    exit 1
  fi
  sleep 0.1
done
show budget

heading "Which models are there?"
show models
model=${DGXMM_MODEL:-$("$DGXMM" models --json |
  python3 -c 'import json, sys
models = [m for m in json.load(sys.stdin)["models"] if not m["problem"] and m["format"] == "gguf"]
print(min(models, key=lambda m: m["file_bytes"])["path"] if models else "")')}
if [ -z "$model" ]; then
  echo "no usable GGUF model in the model folders" >&2
  exit 1
fi

heading "Will it fit?"
show fit "$model" --ctx-size 8192 --parallel 2

heading "Start it"
"$DGXMM" rm "$name" >/dev/null 2>&1 || true
show deploy "$model" --ctx-size 8192 --parallel 2 --name "$name"

heading "It answers"
url=$("$DGXMM" ps --json | python3 -c 'import json, sys
print(next(d["url"] for d in json.load(sys.stdin) if d["name"] == sys.argv[1] and d["state"] == "ready"))' "$name")
python3 - "$url" "$name" <<'PYTHON'
import json
import sys
import urllib.request

url, model = sys.argv[1:]
question = "Why is the sky blue? Answer in one sentence."
body = {"model": model, "messages": [{"role": "user", "content": question}], "max_tokens": 60, "temperature": 0}
request = urllib.request.Request(url + "/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
answer = json.load(urllib.request.urlopen(request, timeout=300))["choices"][0]["message"]["content"]
print(f"you:   {question}\nmodel: {answer.strip()}")
PYTHON

heading "What it really takes (recorded 3 s after it was ready; 15 s by default)"
for _ in $(seq 60); do
  "$DGXMM" calibration --json | grep -q '"measured_bytes"' && break
  sleep 0.25
done
show ps
show calibration

# More than is free, but not more than stopping the first one would give back.
slots=64
tokens=$({
  "$DGXMM" budget --json
  "$DGXMM" fit "$model" --ctx-size 8192 --parallel 2 --json
} | python3 -c 'import json, sys
decoder, text = json.JSONDecoder(), sys.stdin.read()
budget, end = decoder.raw_decode(text)
fit, _ = decoder.raw_decode(text[end:].lstrip())
kv = next(part["bytes"] for part in fit["parts"] if part["name"] == "kv")
missing = budget["free_for_new_bytes"] - (fit["total_bytes"] - kv) + 2**29
slot_step = 256 * int(sys.argv[1])
print(int(missing / (kv / 8192)) // slot_step * slot_step + slot_step)' "$slots")
heading "What if $slots people want $((tokens / slots)) tokens of context each? Nothing is started by asking"
show plan "$model" --ctx-size "$tokens" --parallel "$slots" || [ $? -eq 3 ]

heading "Now it is yours"
cat <<TEXT
dgxmm listens on http://$address until you press Ctrl-C. In another terminal:
  $DGXMM ps
  $DGXMM budget
  $DGXMM logs -f $name
  $DGXMM events -f
  $DGXMM fit MODEL.gguf
  curl $url/models
TEXT
wait "$daemon"
