#!/bin/sh
# The command `gpud`: the command line, in the Python of this installation.
#
# `gpud run` must start fast. It goes without `site`, because the path files of other packages, which it does not need, can cost
# more than all the rest (numba-cuda's: 20 ms). -P: nothing is imported from the directory that it is called in.
checkout=""
bin=${0%/*}
[ -x "$bin/python3" ] || bin=$(dirname -- "$(readlink -f -- "$0")")
[ -x "$bin/python3" ] || exec python3 -P -m gpud.cli.main "$@"
if [ "$1" = run ]; then
    for packages in "$checkout" "${bin%/*}"/lib/python3*/site-packages; do
        [ -f "$packages/gpud/cli/run.py" ] &&
            exec "$bin/python3" -P -S -c 'import sys
sys.path.append(sys.argv.pop(1))
from gpud.cli.main import main
sys.exit(main())' "$packages" "$@"
    done
fi
exec "$bin/python3" -P -m gpud.cli.main "$@"
