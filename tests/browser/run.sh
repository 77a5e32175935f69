#!/usr/bin/env bash
# The web interface in a real browser: every page and flow, accessibility, and with --screenshots the pictures in docs/.
# Works as root on Debian; installs Chromium from Debian and two npm packages into a scratch folder. Needs node and a built `lastbit`
# (LASTBIT=path, else target/release/lastbit, else target/debug/lastbit).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=${LASTBIT:-}
for candidate in "$root/target/release/lastbit" "$root/target/debug/lastbit"; do
  if [ -z "$bin" ] && [ -x "$candidate" ]; then bin=$candidate; fi
done
[ -n "$bin" ] || { echo "build lastbit first: cargo build --release" >&2; exit 2; }
if ! command -v chromium >/dev/null 2>&1; then
  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium fonts-dejavu-core
fi
command -v node >/dev/null 2>&1 || DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends nodejs npm

work=$(mktemp -d)
pids=()
cleanup() { for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; rm -rf "$work"; }
trap cleanup EXIT
cp "$here"/*.mjs "$here/package.json" "$work/"
(cd "$work" && npm install --ignore-scripts --no-audit --no-fund --silent)

"$bin" demo --out "$work/demo" >/dev/null
"$bin" keygen "$work/auditor.pem" >/dev/null
serve() { # NAME ARGS...: starts a service and waits until it says where it is
  local name=$1; shift
  "$bin" web --json "$@" >"$work/$name.json" 2>"$work/$name.log" &
  pids+=($!)
  for _ in $(seq 100); do [ -s "$work/$name.json" ] && break; sleep 0.1; done
}
# The host's pictures: everything trusted and watched. A second one starts empty; at a third people sign in.
serve full --port 0 --store "$work/full" --watch "$work/demo" --trust "$work/demo/keys/auditor.pub" --trust "$work/demo/keys/operator.pub" --auditor-key "$work/auditor.pem"
serve empty --port 0 --store "$work/empty"
for who in admin viewer; do echo "$who has a long password" | "$bin" web user "$who" --role "$who" --store "$work/people" >/dev/null; done
serve people --listen 127.0.0.1:0 --store "$work/people"
# A folder with many results (LASTBIT_MANY=DIR cargo test -p lastbit-web-ui --test http -- --ignored hundred) is measured as well.
if [ -n "${LASTBIT_MANY:-}" ]; then serve many --port 0 --store "$work/many" --watch "$LASTBIT_MANY" --trust "$LASTBIT_MANY/auditor.pub"; fi
LASTBIT_WORK="$work" LASTBIT_DOCS="$root/docs/web" node "$work/web.mjs" "$@"
if [[ " $* " == *" --screenshots "* ]]; then
  command -v pngquant >/dev/null 2>&1 || DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends pngquant
  pngquant --force --ext .png --strip --speed 1 64 "$root"/docs/web/*.png
fi
