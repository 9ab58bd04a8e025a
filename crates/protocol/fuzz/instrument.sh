#!/bin/sh
# Run the compiler for cargo (RUSTC_WRAPPER): the crates of this repository get the instrumentation
# of libFuzzer, that of `cargo fuzz --sanitizer none`, which a stable compiler has too.
set -eu
rustc=$1
shift
crates=$(cd "$(dirname "$0")/../.." && pwd)
case ${CARGO_MANIFEST_DIR:-} in
"$crates"/*)
    exec "$rustc" "$@" --cfg fuzzing -Cpasses=sancov-module -Cdebug-assertions \
        -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-trace-compares \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
    ;;
esac
exec "$rustc" "$@"
