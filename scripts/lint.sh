#!/usr/bin/env bash
# lint.sh CHECK: format, shell, tree or tidy. Run from the root of a checkout (./run lint calls all of them).
set -euo pipefail

# What git knows or would know: build folders and other ignored files are nobody's concern.
files() { git ls-files -co --exclude-standard -- "$@" | while read -r file; do [ -f "$file" ] && echo "$file"; done; }

case ${1:-} in
    format)
        files '*.cpp' '*.h' | xargs clang-format --dry-run -Werror
        ;;
    shell)
        { files '*.sh'; echo run; echo .ci/run; } | xargs shellcheck -x
        ;;
    tree)
        files | python3 scripts/check_tree.py
        ;;
    tidy)
        files 'src/*.cpp' 'tests/*.cpp' 'bench/*.cpp' | python3 scripts/tidy.py build/release
        ;;
    *)
        echo "lint.sh: format, shell, tree or tidy" >&2
        exit 2
        ;;
esac
