#!/bin/sh
# Fuzz each target for SECONDS, from the recorded seeds and what was found before.
# usage: run.sh SECONDS [TARGET...]
#
# What crashes a target is written beside it (crash-*), and ends the run with exit status 1.
set -eu
cd "$(dirname "$0")"
seconds=${1:-}
case $seconds in
"" | 0* | *[!0-9]*)
    echo "fuzz: '$seconds' is not a number of seconds; expected a whole number, such as FUZZ_SECONDS=30" >&2
    exit 2
    ;;
esac
shift
[ $# -gt 0 ] || set -- answer binary_rows greeting prepared session
command -v c++ >/dev/null || { echo "libFuzzer needs a C++ compiler: apt install g++" >&2; exit 2; }

target_dir=$(cd ../../.. && pwd)/target
python3 ../../cargo_lock.py write .
RUSTC_WRAPPER=$(pwd)/instrument.sh cargo build --release --locked --bins --target-dir "$target_dir"
for target in "$@"; do
    mkdir -p "corpus/$target"
    echo "== $target"
    "$target_dir/release/$target" "corpus/$target" "seeds/$target" -artifact_prefix="crash-$target-" \
        -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0
done
