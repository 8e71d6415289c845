#!/bin/sh
# tinygo.sh DIR VERSION builds TinyGo into DIR, from its Go module and Debian's packages
# of LLVM 19: DIR/bin/tinygo is the command. It takes about a minute beside the
# packages, which are 1 GB. Where there is no apt-get, install TinyGo as
# https://tinygo.org/getting-started/install says; agent-runner needs no more than that.
set -eu
dir=$1 version=$2
llvm=19
builtins=/usr/lib/llvm-$llvm/lib/clang/$llvm/lib/wasi/libclang_rt.builtins-wasm32.a
libc=/usr/lib/wasm32-wasi/libc.a

missing=
for file in /usr/bin/clang-$llvm /usr/bin/wasm-ld-$llvm $builtins $libc /usr/lib/llvm-$llvm/lib/libclang.so /usr/bin/wasm-opt /usr/bin/g++; do
	test -e "$file" || missing=$file
done
if [ "$missing" ]; then
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc g++ libc6-dev binaryen wasi-libc \
		llvm-$llvm-dev libclang-$llvm-dev lld-$llvm clang-$llvm libclang-rt-$llvm-dev-wasm32
fi

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
cd / # outside of any Go module
source=$(go mod download -json "github.com/tinygo-org/tinygo@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')

# What programs are built with stands beside the command. The module has none of
# TinyGo's submodules: of the network's package there is nothing, and C's library and
# the compiler's are Debian's.
cd "$dir"
rm -rf bin src targets lib
cp -r "$source/src" "$source/targets" "$source/lib" .
chmod -R u+w src targets lib
mkdir -p src/net
sed -e '/"libc":/d' -e '/"rtlib":/d' -e 's/+bulk-memory-opt,+call-indirect-overlong,//' \
	-e "s|\"--no-demangle\"|\"--no-demangle\", \"$libc\", \"$builtins\"|" \
	"$source/targets/wasip1.json" > targets/wasip1.json
echo "module tinygo // so that ./... of a project around it stays outside" > go.mod

cd "$source"
GOFLAGS='' CGO_ENABLED=1 GOBIN="$dir/bin" go install -tags llvm$llvm .
"$dir/bin/tinygo" version
