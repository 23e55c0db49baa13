#!/bin/sh
# Installs what `make bench-rivals` compares with, and the generator of TPC-H, each in an environment of its own below
# .tools/rivals. Called by `make bench-rivals` and `make bench-tpch`.
set -eu

uv=$(command -v uv || echo .tools/bin/uv)
at=.tools/rivals

install() {
    name=$1
    shift
    echo "$*" | cmp -s - "$at/$name/.wanted" && return
    "$uv" venv --quiet --clear --python "${PYTHON:-.venv/bin/python}" "$at/$name"
    "$uv" pip install --quiet --python "$at/$name/bin/python" "$@"
    # The first run of a tool would compile all of it.
    "$at/$name/bin/python" -m compileall -q "$at/$name/lib" >/dev/null || true
    echo "$*" >"$at/$name/.wanted"
}

install dlt "dlt[deltalake,pyiceberg]==1.31.0" connectorx "psycopg[binary]" psycopg2-binary sqlalchemy pandas
install ingestr ingestr==1.1.22
install tpchgen tpchgen-cli==4.0.0
