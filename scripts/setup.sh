#!/bin/sh
# Makes .venv: the locked project with every extra and its tools, then the jars and an archive of
# Spark's classes. Called by `make setup`.
# Needs Python 3.11 with venv and Java 17; brings its own uv when there is none. What it fetches is compared with a pinned
# SHA-256: uv with scripts/uv.txt, packages with uv.lock, jars with src/tidegate/spark/jars.py.
set -eu

stop() {
    echo "tidegate: $1" >&2
    exit 1
}

python=
for name in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
    if command -v "$name" >/dev/null 2>&1 && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        python=$(command -v "$name")
        break
    fi
done
[ -n "$python" ] || stop "needs Python 3.11 or later: apt-get install python3 python3-venv"
"$python" -c 'import ensurepip, venv' 2>/dev/null || stop "needs Python's venv: apt-get install python3-venv"

java=${JAVA_HOME:+$JAVA_HOME/bin/}java
version=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1) || version=
[ "${version:-0}" -ge 17 ] || stop "needs Java 17 or later: apt-get install openjdk-17-jre-headless"

uv=$(command -v uv || true)
if [ -z "$uv" ]; then
    uv=.tools/bin/uv
    if [ ! -x "$uv" ]; then
        "$python" -m venv .tools
        .tools/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
            --requirement scripts/uv.txt
    fi
fi

# Compiled now, once: a short command takes twice as long where nobody may keep what Python compiles.
UV_PYTHON_DOWNLOADS=never "$uv" sync --quiet --locked --all-extras --compile-bytecode --python "$python"
.venv/bin/python -m compileall -q src examples
.venv/bin/python -m tidegate.spark.jars >/dev/null
.venv/bin/python -m tidegate.spark.archive >/dev/null 2>&1 || echo "no archive of classes: Spark starts slower" >&2
echo "ready: .venv/bin/tidegate" >&2
