#!/bin/sh
# What the tests need beside Python: a Chromium for the page, Prometheus for its rules, iproute2 and nftables for links
# that lose packets, an nginx that limits requests, and a PgBouncer that shares sessions. Debian has them all as packages.
# They are installed where they are missing and where that is allowed; else their tests are skipped, with a word that
# says so, except in CI, where they fail.
set -eu

missing=''
command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 \
  || command -v google-chrome >/dev/null 2>&1 || missing="$missing chromium"
command -v promtool >/dev/null 2>&1 || missing="$missing prometheus"
command -v ip >/dev/null 2>&1 || missing="$missing iproute2"
command -v nft >/dev/null 2>&1 || missing="$missing nftables"
[ -x /usr/sbin/nginx ] || command -v nginx >/dev/null 2>&1 || missing="$missing nginx-light"
[ -x /usr/sbin/pgbouncer ] || command -v pgbouncer >/dev/null 2>&1 || missing="$missing pgbouncer"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "==> missing:$missing. Their tests will be skipped; install them with: apt-get install$missing" >&2
  exit 0
fi
printf '==> installing%s\n' "$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# shellcheck disable=SC2086 # names of packages
if ! { apt-get update && apt-get install --yes --no-install-recommends $missing; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "==> could not install$missing; their tests will be skipped, or fail in CI" >&2
fi
rm -f "$log"
