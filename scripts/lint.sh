#!/usr/bin/env bash
# lint.sh CHECK: format, shell, tree, tidy, tidy-tests or tidy-full. Run from the root of a checkout (./run lint calls all of them).
set -euo pipefail
# shellcheck source=scripts/lib.sh
source scripts/lib.sh

# What git knows or would know: build folders and other ignored files are nobody's concern.
files() { git ls-files -co --exclude-standard -- "$@" | while read -r file; do [ -f "$file" ] && echo "$file"; done; }

# The path-sensitive analyzer takes three quarters of clang-tidy's time, and two checks a quarter of the rest.
fast_checks='-clang-analyzer-*,-bugprone-reserved-identifier,-bugprone-stringview-nullptr'

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
        files 'src/*.cpp' 'bench/*.cpp' | python3 scripts/tidy.py build/release "$fast_checks"
        ;;
    tidy-tests)
        files 'tests/*.cpp' | grep -v ^tests/e2e/ | python3 scripts/tidy.py build/release "$fast_checks"
        ;;
    tidy-full) # not bench/: what Google Benchmark's headers do looks like leaks to the analyzer
        files 'src/*.cpp' | python3 scripts/tidy.py build/release ''
        ;;
    *)
        echo "lint.sh: format, shell, tree, tidy, tidy-tests or tidy-full" >&2
        exit 2
        ;;
esac
