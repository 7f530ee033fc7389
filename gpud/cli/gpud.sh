#!/bin/sh
# The command `gpud`: the command line, in the Python of this installation.
#
# `gpud run` and what is asked often must start fast. They go without `site`, because the path files of other packages, which they do
# not need, can cost more than all the rest (numba-cuda's: 20 ms). -P: nothing is imported from the directory that it is called in.
checkout=""
bin=${0%/*}
[ -x "$bin/python3" ] || bin=$(dirname -- "$(readlink -f -- "$0")")
[ -x "$bin/python3" ] || exec python3 -P -m gpud.cli.main "$@"
case "$1" in
run | ps | why | status | stats)
    for site in "${bin%/*}"/lib/python3*/site-packages; do
        # Beside `run`, which needs no other package: all of them must be here, and not in the system's places.
        [ "$1" = run ] || { [ -d "$site/msgspec" ] && [ -d "$site/attrs" ] && [ -d "$site/click" ] && [ -d "$site/rich" ]; } || continue
        for packages in "$checkout" "$site"; do
            [ -f "$packages/gpud/cli/run.py" ] &&
                exec "$bin/python3" -P -S -c 'import sys
sys.path += sys.argv[1:3]
del sys.argv[1:3]
from gpud.cli.main import main
sys.exit(main())' "$packages" "$site" "$@"
        done
    done
    ;;
esac
exec "$bin/python3" -P -m gpud.cli.main "$@"
