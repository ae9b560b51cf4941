#!/bin/sh
# Fetches the viewer of the page anew: make openapi-viewer. The version and npm's checksum
# of its package are pinned here, those of the files in handler_test.go.
set -eu
version=5.35.0
integrity=U06rpMtW9V3XPGOBeamTUSr0Z09jMX4IJuANpE/EZbAhw0G8CgwrzU4YmXkn/h0wCDNsXdGarTNNHC3sU8yVUQ==
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
npm pack --silent "swagger-ui-dist@$version" >/dev/null
got=$(openssl dgst -sha512 -binary "swagger-ui-dist-$version.tgz" | base64 -w0)
[ "$got" = "$integrity" ] || { echo "swagger-ui-dist $version has the checksum $got, want $integrity" >&2; exit 1; }
tar xzf "swagger-ui-dist-$version.tgz"
for f in swagger-ui-bundle.js swagger-ui.css; do gzip -n9c "package/$f" >"$here/viewer/$f.gz"; done
cp package/LICENSE package/NOTICE package/swagger-ui-bundle.js.LICENSE.txt "$here/viewer/"
