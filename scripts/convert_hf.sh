#!/usr/bin/env bash
# Prints the path of llama.cpp's converter of Hugging Face folders, unpacked from the source that scripts/llama.sh
# fetched: for KAIJU_CONVERT_HF (docs/commands/ladder.md). Running it needs Python's torch, transformers and numpy.
set -euo pipefail
CACHE=${KAIJU_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kaiju}
VERSION=0.3.36

folder=$CACHE/convert-hf-$VERSION
if [ ! -e "$folder/convert_hf_to_gguf.py" ]; then
    tarball=$CACHE/downloads/llama_cpp_python-$VERSION.tar.gz
    [ -e "$tarball" ] || { echo "convert_hf.sh: $tarball is not there: ./run setup fetches it" >&2; exit 5; }
    work=$(mktemp -d "$CACHE/convert-hf-XXXXXX")
    root=llama_cpp_python-$VERSION/vendor/llama.cpp
    tar xzf "$tarball" -C "$work" --strip-components=3 "$root/convert_hf_to_gguf.py" "$root/conversion" "$root/gguf-py"
    mv -T "$work" "$folder" 2> /dev/null || rm -rf "$work"
fi
echo "$folder/convert_hf_to_gguf.py"
