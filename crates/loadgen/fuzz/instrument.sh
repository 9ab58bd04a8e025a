#!/bin/sh
# What cargo runs as the compiler (RUSTC_WRAPPER): millrace's own crates get the instrumentation of
# libFuzzer, that of `cargo fuzz --sanitizer none`, which a stable compiler has too.
set -eu
rustc=$1
shift
case " $* " in
*" --crate-name millrace_load "* | *" fuzz_targets/"*)
    exec "$rustc" "$@" --cfg fuzzing -Cpasses=sancov-module -Cdebug-assertions \
        -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-trace-compares \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
    ;;
esac
exec "$rustc" "$@"
