#!/bin/sh
# Compiles glue.c, and downloads the engine if quickjs.wasm is missing or has another hash than the
# one below. Requires clang and lld for wasm32, npm and sha256sum.
set -eu
cd "$(dirname "$0")"

version=3.6.2
engine=d4c9375f2b1ca4dc95f72c8aa2982a7a9951ac8011490d79c6582df732b4bbd9

good() { echo "$engine  quickjs.wasm" | sha256sum --check --status 2>/dev/null; }

if ! good; then
	npm pack --silent "quickjs-wasi@$version" >/dev/null # npm verifies the package with the registry's hash
	tar -xzf "quickjs-wasi-$version.tgz" --strip-components=1 package/quickjs.wasm
	rm "quickjs-wasi-$version.tgz"
	good || { echo "quickjs.wasm of quickjs-wasi $version is not the one that was reviewed" >&2; exit 1; }
fi

# Compiling and linking are two steps, because clang runs wasm-opt on modules that it links, if wasm-opt
# is installed. This would change the module.
clang --target=wasm32 -O2 -nostdlib -ffreestanding -Wall -c -o glue.o glue.c
wasm-ld --no-entry --import-memory --strip-all -z stack-size=0 -o glue.wasm glue.o
rm glue.o
