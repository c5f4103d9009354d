#!/bin/sh
# Builds the extension with AddressSanitizer and UndefinedBehaviorSanitizer. Then runs the native tests, the self-check and some
# episodes of the fuzzers on it. Works from any folder; needs Linux, GCC or Clang, and CMake 3.26 (pip install cmake).
#   native/sanitize.sh [build folder] [pytest arguments]
# llama.cpp and Python are not instrumented, so leaks are not looked for.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
build=${1:-$root/build/sanitize}
[ $# -gt 0 ] && shift

cmake -S "$here" -B "$build" -DRELAY_SANITIZE=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPython_EXECUTABLE="$(command -v python)"
cmake --build "$build" -j2

# A package folder whose extension is the sanitized one.
package=$build/package
rm -rf "$package" && mkdir -p "$package/relaylite"
for file in "$root"/relaylite/*; do
  case $(basename "$file") in _native*) ;; *) ln -s "$file" "$package/relaylite/" ;; esac
done
ln -s "$build"/_native*.so "$package/relaylite/"

libasan=$(${CXX:-c++} -print-file-name=libasan.so)
libubsan=$(${CXX:-c++} -print-file-name=libubsan.so)
export PYTHONSAFEPATH=1  # the folder that Python starts in does not come before the package
cd "$root"
ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:protect_shadow_gap=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
  LD_PRELOAD="$libasan:$libubsan" PYTHONMALLOC=malloc PYTHONPATH="$package:tests" \
  python -m pytest -p no:cacheprovider --rootdir "$root" tests/native tests/engine/test_self_check.py tests/fuzz "$@"
