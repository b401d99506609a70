#!/usr/bin/env bash
# test_compose.sh FILE.deb LLAMA_SERVER MODEL.gguf: builds the image from the package, starts it by compose as its owner
# would, and deploys a model in a container from there. All with a Docker Engine of its own; needs root.
set -euo pipefail

package=$1 llama_server=$2 model=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
work=$(mktemp -d /var/tmp/dgxmm-compose.XXXXXX)
export DOCKER_HOST=unix://$work/docker.sock DOCKER_BUILDKIT=0 COMPOSE_PROJECT_NAME=dgxmm-test
export DGXMM_DOCKER_SOCKET=$work/docker.sock DGXMM_MODELS=$work/models DGXMM_LLAMACPP_IMAGE=llama-server:test
dockerd=

compose() { "${compose_program[@]}" --project-directory "$work" -f "$work/docker-compose.yaml" "$@"; }
inside() { compose exec -T dgxmm dgxmm "$@"; }

clean_up() {
  if [ -n "$dockerd" ]; then
    docker ps --all --quiet 2>/dev/null | xargs --no-run-if-empty docker rm --force --volumes >/dev/null 2>&1 || true
    docker network prune --force >/dev/null 2>&1 || true # else their bridges stay
    kill "$dockerd" 2>/dev/null || true
    wait "$dockerd" 2>/dev/null || true
  fi
  grep -oE "$work/[^ ]+" /proc/self/mounts | sort -r | xargs --no-run-if-empty umount --lazy 2>/dev/null || true
  rm -rf --one-file-system "$work"
}
trap clean_up EXIT

fail() {
  echo "$1" >&2
  compose logs --tail 30 >&2 2>/dev/null || tail -n 20 "$work/dockerd.log" >&2
  exit 1
}

# eventually COMMAND...: within a minute.
eventually() {
  for _ in $(seq 600); do
    if "$@" >"$work/out" 2>&1; then return 0; fi
    sleep 0.1
  done
  cat "$work/out" >&2
  return 1
}

# The engines of the host publish ports, which takes its own bridge; iptables is left alone.
dockerd --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/dockerd.pid" --host "$DOCKER_HOST" \
  --bridge=none --iptables=false --ip6tables=false >"$work/dockerd.log" 2>&1 &
dockerd=$!
eventually docker version || fail "the Docker Engine does not start"

# A base image without a registry: what `debian:12-slim` is, from where this machine installs.
# shellcheck source=/dev/null
suite=$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")
# shellcheck disable=SC2016  # apt fills them in
mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE)' 2>/dev/null | awk -v suite="$suite" '$2 == suite {print $1; exit}')
debootstrap --variant=minbase "$suite" "$work/root" ${mirror:+"$mirror"} >"$work/debootstrap.log"
cp -r /etc/apt/apt.conf.d/. "$work/root/etc/apt/apt.conf.d/"
cp -r /etc/ssl/certs/. "$work/root/etc/ssl/certs/" 2>/dev/null || mkdir -p "$work/root/etc/ssl"
tar --create --directory "$work/root" . | docker import - dgxmm-base:test >/dev/null
rm -rf --one-file-system "$work/root"

docker build --network host --build-arg BASE=dgxmm-base:test --file "$here/Dockerfile" --tag dgxmm "$(dirname "$package")" \
  >"$work/build.log" 2>&1 || { tail -n 20 "$work/build.log" >&2; fail "the image cannot be built"; }

# The engine, as an image whose entrypoint is llama-server.
folder=$(dirname "$(dirname "$llama_server")")
tar --create --directory / "${folder#/}" |
  docker import --change "ENTRYPOINT [\"$llama_server\"]" - "$DGXMM_LLAMACPP_IMAGE" >/dev/null
mkdir "$DGXMM_MODELS"
cp "$model" "$DGXMM_MODELS/model.gguf"

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export DGXMM_LISTEN=127.0.0.1:$port
cp "$here/docker-compose.yaml" "$work/"
if docker compose version >/dev/null 2>&1; then
  compose_program=(docker compose)
else
  # The compose of Debian 12 does not know this key; what it asks for is the default of its engine with cgroup v1.
  compose_program=(docker-compose)
  sed -i '/^ *cgroup: host/d' "$work/docker-compose.yaml"
fi
compose up --detach >"$work/up.log" 2>&1 || { cat "$work/up.log" >&2; fail "compose does not start it"; }

eventually inside ps --json || fail "the daemon does not answer"
# Whatever this host is like, what depends on how the container runs must be well. An old engine is warned about.
inside doctor >"$work/doctor" || true
cat "$work/doctor"
for fact in 'ok +PID namespace +the host' 'ok +cgroups +v[12], memory controller, the host' '(ok|!!) +Docker +[0-9]' \
  'ok +llama.cpp image +llama-server:test' 'ok +models '; do
  grep --quiet --extended-regexp "^$fact" "$work/doctor" || fail "doctor does not find it well: $fact"
done
curl --silent --fail "http://$DGXMM_LISTEN/api/v1/budget" | grep --quiet '"source":"daemon"' || fail "no API on loopback"

inside deploy model --ctx-size 512 || fail "the model is not served"
inside ps
url=$(inside ps --json | grep -oE 'http://127.0.0.1:[0-9]+/v1' | head -n 1)
curl --silent --fail "$url/models" | grep --quiet '"model"' || fail "it does not answer on the host's loopback"
inside ps --json | grep --quiet --extended-regexp '"anon_bytes":[1-9]' || fail "its memory is not measured"
curl --silent --fail "http://$DGXMM_LISTEN/" | grep --quiet '<script' || fail "no page"
# The daemon is replaced; the engine is not.
before=$(docker ps --quiet --no-trunc --filter label=dgxmm.name)
compose restart dgxmm >/dev/null 2>&1
is_ready() { inside ps | grep --quiet --extended-regexp 'model +ready'; }
eventually is_ready || fail "it is not found again"
[ "$before" = "$(docker ps --quiet --no-trunc --filter label=dgxmm.name)" ] || fail "it was started again"
health() { [ "$(docker inspect --format '{{.State.Health.Status}}' "$(compose ps --quiet dgxmm)")" = healthy ]; }
eventually health || fail "the health check fails"
inside stop model
echo "built, started by compose, deployed, adopted and stopped"
