#!/usr/bin/env bash
# Builds the native module with AddressSanitizer and UndefinedBehaviorSanitizer beside a copy of the package, in
# build/sanitized, and runs tests/native with it. `make sanitize` calls it; arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
package=$root/build/sanitized
python=$(command -v "${PYTHON:-python3}")
[[ $python == /* ]] || python=$root/$python
compiler=${CC:-cc}

command -v "$compiler" > /dev/null || { echo "sanitize is left out: there is no C compiler ($compiler)."; exit 0; }
libraries=$(for name in asan ubsan; do "$compiler" -print-file-name="lib$name.so"; done)
for library in $libraries; do
    [[ $library == /* ]] || { echo "$compiler has no $library; install it, or set CC to a GCC that has it." >&2; exit 1; }
done

rm -rf "$package"
mkdir -p "$package"
tar cf - --exclude='*.so' --exclude=__pycache__ beam_datasets | tar xf - -C "$package"
include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
interface=$("$python" -c 'import zlib; print(zlib.crc32(open("beam_datasets/native/_core.pyi", "rb").read()) & 0x7FFFFFFF)')
"$compiler" -shared -fPIC -std=c11 -O2 -g -fno-omit-frame-pointer -Wall -Wextra -Werror \
    "-DPy_LIMITED_API=0x030B0000" "-DINTERFACE=$interface" -I"$include" \
    -fsanitize=address,undefined -fno-sanitize-recover=undefined beam_datasets/native/*.c \
    -o "$package/beam_datasets/native/_core.abi3.so"

# A leak of Python's is none of ours, and a test asks for more memory than there is. Python's own allocator would hide
# what is read behind the end of an object.
export LD_PRELOAD=${libraries//$'\n'/ } ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 PYTHONMALLOC=malloc
export PYTHONPATH=$package
cd "$package" # where Python looks first
"$python" -c 'from beam_datasets.native import _core; assert "sanitized" in _core.__file__, _core'
"$python" -m pytest -p no:cacheprovider --rootdir "$root" -c "$root/pyproject.toml" "$root/tests/native" "$@"
