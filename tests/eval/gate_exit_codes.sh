#!/usr/bin/env bash
# gate_exit_codes.sh KAIJU MAKE_TINY_MODEL: what `kaiju gate` answers to its caller.
set -uo pipefail
kaiju=$1
make_tiny_model=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

expect() {  # expect CODE WORD COMMAND...: runs the command, compares its exit code, looks for the word in what it says
    local code=$1 word=$2 actual=0
    shift 2
    "$@" > out.txt 2> err.txt || actual=$?
    if [ "$actual" != "$code" ] || ! cat out.txt err.txt | grep -q -- "$word"; then
        echo "expected exit $code and \"$word\", got exit $actual from: $*"
        cat out.txt err.txt
        exit 1
    fi
}

"$make_tiny_model" model.gguf seed=1 > /dev/null
"$make_tiny_model" other.gguf seed=2 > /dev/null
"$make_tiny_model" --text 2000 1 > text.txt
prompt=(--prompt "the error of every block" --id tiny --threads 1)

expect 0 '"pass":true' "$kaiju" gate mint --model model.gguf "${prompt[@]}" --min-margin 0 --out q.qspec.json --json
expect 4 'already exists' "$kaiju" gate mint --model model.gguf "${prompt[@]}" --min-margin 0 --out q.qspec.json
expect 1 'refused' "$kaiju" gate mint --model model.gguf "${prompt[@]}" --min-margin 1000 --out never.qspec.json
expect 5 'absent.gguf' "$kaiju" gate mint --model absent.gguf "${prompt[@]}" --out never.qspec.json
if [ -e never.qspec.json ]; then
    echo "a refused mint left a file"
    exit 1
fi

run=("$kaiju" gate run --qspec q.qspec.json --threads 1)
expect 0 '"pass":true' "${run[@]}" --model model.gguf --log gate.log --telemetry gate.json --json
if ! grep -q PASS gate.log || ! grep -q '"rank": 1' gate.json; then
    echo "log or telemetry is wrong"
    exit 1
fi
expect 4 'gate.log' "${run[@]}" --model model.gguf --log gate.log
expect 1 FAIL "${run[@]}" --model other.gguf --argmax report
expect 1 'above the limit' "${run[@]}" --model model.gguf --text text.txt --ctx 64 --chunks 2 --ppl-max 1.01
expect 0 PASS "${run[@]}" --model model.gguf --reference model.gguf --text text.txt --ctx 64 --chunks 2 --kl-max 0.001
expect 2 'needs a text' "${run[@]}" --model model.gguf --ppl-max 20
expect 5 'none.qspec.json' "$kaiju" gate run --qspec none.qspec.json --model model.gguf
echo '{"id":"tiny","family":"x","prompt":"","prompt_tokens":[1],"expect_token":1,"reject_token":2}' > gateway.json
expect 5 'not gate-ready' "$kaiju" gate run --qspec gateway.json --model model.gguf
