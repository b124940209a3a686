#!/usr/bin/env bash
# fuzz.sh FUZZER CORPUS SECONDS: runs one libFuzzer program. New inputs go to a folder in the cache; the corpus of the
# repository is only read. A finding is left there too and fails the run.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source scripts/lib.sh
fuzzer=$1 corpus=$2 seconds=$3
grown=$KAIJU_CACHE/fuzz/$(basename "$fuzzer")
mkdir -p "$grown"
seeds=("$grown")
[ -d "$corpus" ] && seeds+=("$corpus")
log=$grown.log
if "$fuzzer" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$grown-finding-" "${seeds[@]}" > "$log" 2>&1; then
    grep -E 'number_of_executed_units|new_units_added' "$log"
else
    tail -40 "$log"
    exit 1
fi
