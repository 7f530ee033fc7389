#!/bin/sh
# Stands in for the Python that runs the PTX compiler: knows the words of the tests' "PTX", gives the module of kernels.c.
# Called as: compiler.sh -P -s -m gpud.ptx IN -o OUT
in=$5 out=$7
[ -z "$LD_PRELOAD$LD_LIBRARY_PATH$PYTHONHOME" ] || { echo "the environment is not clean" >&2; exit 9; }
if grep -q 'word fail' "$in"; then
    echo "$in:7: foo.bar %r1: no such instruction; write another" >&2
    exit 1
fi
grep -q 'word crash' "$in" && kill -9 $$
grep -q 'word silent' "$in" && exit 0
grep -q 'word missing' "$in" && { echo "gpud.ptx: there is no C compiler" >&2; exit 3; }
echo x >>"${out%/*}/compiles"
cp "$GPUD_TEST_MODULE" "$out.$$" && mv "$out.$$" "$out"    # whole or not at all: other processes may be loading it
