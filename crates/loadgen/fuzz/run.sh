#!/bin/sh
# Fuzz each target for so many seconds, from the recorded seeds and what was found before.
# usage: run.sh SECONDS [TARGET...]
#
# The instrumentation is that of `cargo fuzz --sanitizer none`, which a stable compiler has too.
# What crashes a target is written beside it (crash-*), and ends the run with exit status 1.
set -eu
cd "$(dirname "$0")"
seconds=$1
shift
[ $# -gt 0 ] || set -- answer binary_rows greeting prepared session
command -v c++ >/dev/null || { echo "libFuzzer needs a C++ compiler: apt install g++" >&2; exit 2; }

# With --target, build scripts and macros are built without the instrumentation.
host=$(rustc --version --verbose | sed -n 's/^host: //p')
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cdebug-assertions \
-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-trace-compares \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table" \
    cargo build --release --bins --target "$host"
for target in "$@"; do
    mkdir -p "corpus/$target"
    echo "== $target"
    "target/$host/release/$target" "corpus/$target" "seeds/$target" -artifact_prefix="crash-$target-" \
        -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0
done
