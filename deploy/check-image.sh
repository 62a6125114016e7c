#!/bin/sh
# Builds the image without a container daemon, and runs it as compose.yaml does: not root, without capabilities, on a
# read-only tree, with nothing writable but the ledger's volume and /tmp, and without a network. The shipped config looks
# at the embedded twin. Then: healthy while it runs, not before and not after; the chain holds; a clean end by SIGTERM.
#
# As root on Linux, with buildah and util-linux, from anywhere: sh deploy/check-image.sh
# BUILD_OPTIONS are passed on to buildah, for example --pull-never for a base image that is already here.
set -eu

IMAGE=campaign-worker-checked
if [ "${1:-}" != inside ]; then
  here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
  export BUILDAH_ISOLATION="${BUILDAH_ISOLATION:-chroot}"
  # shellcheck disable=SC2086 # options
  buildah bud --format docker ${BUILD_OPTIONS:-} -t "$IMAGE" "$here"
  container=$(buildah from --pull-never "$IMAGE")
  volume=$(mktemp -d)
  trap 'buildah rm "$container" >/dev/null; rm -rf "$volume"' EXIT
  chown 10001:10001 "$volume"
  unshare --mount --net --pid --fork --kill-child sh "$0" inside "$(buildah mount "$container")" "$volume"
  exit
fi

tree=$2
volume=$3
log=$(mktemp)
mount --make-rprivate /
mount --bind "$tree" "$tree"
mount -t tmpfs -o size=64m,mode=1777 tmpfs "$tree/tmp"
mount -t proc proc "$tree/proc"
mount --bind /dev "$tree/dev"
mount --bind "$volume" "$tree/data"
mount -o remount,bind,ro "$tree"
ip link set lo up

as_worker() {
  exec chroot "$tree" setpriv --reuid 10001 --regid 10001 --clear-groups --bounding-set=-all --no-new-privs \
    env -i HOME=/data PATH=/opt/campaign-worker/bin:/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 PYTHONUNBUFFERED=1 \
    CAMPAIGN_WORKER_CONFIG=/etc/campaign-worker/config.yaml sh -c 'cd /data && exec "$@"' worker "$@"
}
healthy() { (as_worker campaign-worker status --healthy) >/dev/null 2>&1; }
must() { echo "ok: $1"; }
fail() { echo "FAILED: $1" >&2; tail -n 5 "$log" >&2; exit 1; }

if (as_worker touch /etc/written) 2>/dev/null; then fail 'the tree can be written'; else must 'the tree is read-only'; fi
if healthy; then fail 'healthy before it runs'; else must 'unhealthy before it runs'; fi
(as_worker campaign-worker run) >"$log" 2>&1 &
worker=$!
tries=0
until healthy; do
  tries=$((tries + 1))
  [ "$tries" -lt 60 ] || fail 'not healthy within a minute'
  sleep 1
done
must 'healthy'
grep -q '^Uid:	10001	10001	10001	10001$' "$tree/proc/$worker/status" || fail 'it does not run as 10001'
grep -q '^CapEff:	0000000000000000$' "$tree/proc/$worker/status" || fail 'it has capabilities'
must 'it runs as 10001, without capabilities'
sleep 15
(as_worker campaign-worker log --verify) || fail 'the chain'
began=$(date +%s)
kill -TERM "$worker"
code=0
wait "$worker" || code=$?
took=$(($(date +%s) - began))
[ "$code" -eq 0 ] || fail "SIGTERM ends it with $code"
[ "$took" -le 20 ] || fail "SIGTERM takes $took s, which is longer than stop_within"
must "SIGTERM ends it with 0 within $took s"
if healthy; then fail 'healthy after its end'; else must 'unhealthy after its end'; fi
ls -l "$tree/data"
