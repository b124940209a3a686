#!/usr/bin/env bash
# bench_quality.sh: what each ingredient of the encoders buys, on SmolLM2-135M-Instruct and WikiText-2: the table of
# docs/results.md. Called by ./run bench quality; arguments go to scripts/quality.py.
#
# Every finished step leaves a file in build/quality and is not done again; remove the folder to start over.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source scripts/lib.sh
# shellcheck source=scripts/steps.sh
source scripts/steps.sh

DATA=$(realpath -m "${KAIJU_DATA:-../shared/data}/wikitext-2")
QUALITY=build/quality
kaiju=$PWD/build/release/bin/kaiju
ROOT=$PWD
[ -r "$DATA/wiki.test.raw" ] || die 5 "no $DATA/wiki.test.raw: set KAIJU_DATA to the folder that holds wikitext-2"
mkdir -p "$QUALITY"
cd "$QUALITY"

step "fetch SmolLM2-135M-Instruct" q4_1.gguf fetch_smollm2 q4_1.gguf
step "dequantise to f16: the truth" f16.gguf "$kaiju" f16 --model q4_1.gguf --out f16.gguf
step "importances of 80 chunks of the validation text" importance.gguf \
    "$kaiju" imatrix --model f16.gguf --text "$DATA/wiki.valid.tokens.txt" --out importance.gguf --chunks 80
step "covariances of 100,000 tokens of it" covariance.full \
    "$kaiju" capture --model f16.gguf --text "$DATA/wiki.valid.tokens.txt" --out covariance.full --full --stride 1 --resume
step "sketches of them, K = 32" covariance.sket \
    "$kaiju" sketch from-covariance covariance.full --k 32 --out covariance.sket
step "a knot whose matrices are encoded alike" even.knot \
    "$kaiju" -q encode --model f16.gguf --imatrix importance.gguf --encoder v3 --covariance covariance.full --out even.knot --resume
step "what the model suffers from in it" sensitivity.json \
    "$kaiju" sensitivity --model f16.gguf --quantised even.knot --text "$DATA/wiki.valid.tokens.txt" --chunks 6 --out sensitivity.json
python3 "$ROOT/scripts/quality.py" --kaiju "$kaiju" --model f16.gguf --imatrix importance.gguf --sketch covariance.sket \
    --covariance covariance.full --sensitivity sensitivity.json --text "$DATA/wiki.test.raw" --work rows "$@"
