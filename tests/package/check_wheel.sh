#!/usr/bin/env bash
# Installs a wheel into a new environment, away from the source tree, and runs its commands there.
# They have to end with 0 and say nothing on standard error.
#
#   check_wheel.sh WHEEL [CONSTRAINTS [PACKAGE ...]]
#
# CONSTRAINTS: a file of versions for pip, default the tested ones. PACKAGE: what is to stand beside
# it, pandas say. PYTHON: which Python to take.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
wheel=$(realpath "$1")
constraints=$(realpath "${2:-$here/constraints.txt}")
beside=("${@:3}")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# Java says aloud when it is given options this way.
unset PYTHONPATH PYTHONWARNINGS JAVA_TOOL_OPTIONS SPARK_HOME PYSPARK_PYTHON
# A cache of its own, which stays without jars: the applier needs none.
export SPARK_REPL_CACHE=$work/cache

"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
  -c "$constraints" "$wheel[spark]" "${beside[@]}"
export PATH=$work/venv/bin:$PATH
bank=$(python -c 'import spark_repl.demo as demo; print(list(demo.__path__)[0])')/bank
case $bank in "$work"/*) ;; *) echo "Error: $bank is not the installed one" >&2; exit 1;; esac
python -c 'import sys; print("Python", sys.version.split()[0])'
python -m pip --disable-pip-version-check list | grep -iE '^(pyspark|numpy|pyarrow|pandas|numba|deltalake) ' || true

# Runs a command; what it says on standard error is a fault.
quiet() {
  echo "\$ $*"
  if ! "$@" >out 2>err || [ -s err ]; then
    cat out err >&2
    echo "Error: $* failed, or said something on standard error" >&2
    exit 1
  fi
}

quiet spark-repl --version
quiet spark-repl --help
quiet spark-repl apply --relay "$bank" --target lake
quiet spark-repl apply --relay "$bank" --target lake # nothing is left to do
quiet spark-repl status --target lake
quiet spark-repl cut show --target lake
quiet spark-repl report --target lake --out report.html # the page's style and scripts are in the wheel
quiet python -c 'from spark_repl.observe.web.docs import doc_names; assert "troubleshooting.md" in doc_names()'
quiet spark-repl relay verify "$bank"
quiet spark-repl setup
quiet spark-repl demo --keep kept
# Where its appliers write, Java names the options that the demo gives it, and nothing else is said.
if grep -v '^Picked up JAVA_TOOL_OPTIONS' kept/applier.err >&2; then
  echo "Error: the demo's appliers said something on standard error" >&2
  exit 1
fi
if [ -e cache/jars ]; then
  echo "Error: jars were fetched" >&2
  exit 1
fi
echo "The wheel works in silence."
