#!/bin/sh
# Installs the servers that tests and benchmarks start for themselves. Called by `make services`.
# Starts nothing: each test run has its own server, on its own port, in its own folder.
# `services.sh s3` installs the S3 server of `make test-all` instead; it is built by Go, in a minute.
# `services.sh kafka` fetches Kafka and Debezium, which those tests otherwise do when they first need them.
set -eu

if [ "${1:-}" = s3 ]; then
    jars=${TIDEGATE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tidegate/jars}
    folder=$(dirname "$jars")/servers/versitygw-1.8.0
    [ -x "$folder/versitygw" ] && exit 0
    command -v go >/dev/null 2>&1 || {
        echo "tidegate: the S3 server of the tests is built by Go 1.25 or later: apt-get install golang-go" >&2
        exit 1
    }
    GOBIN=$folder go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
    exit 0
fi

if [ "${1:-}" = kafka ]; then
    PYTHONPATH=tests .venv/bin/python -m support.kafka >/dev/null
    exit 0
fi

wanted=
found=
for program in /usr/lib/postgresql/*/bin/initdb; do
    [ -x "$program" ] && found=yes
done
[ -n "$found" ] || wanted="$wanted postgresql"
# The programs alone, without the service that Debian would start.
for program in mariadbd mariadb-install-db my_print_defaults; do
    PATH="$PATH:/usr/sbin" command -v "$program" >/dev/null 2>&1 || {
        wanted="$wanted mariadb-server-core mariadb-client-core"
        break
    }
done
[ -n "$wanted" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || {
        echo "tidegate: the tests need servers' programs: apt-get install$wanted" >&2
        exit 1
    }
    as_root=sudo
fi
# Debian would make and start a server of its own at once; these tests need the programs only.
$as_root mkdir -p /etc/postgresql-common/createcluster.d
echo "create_main_cluster = false" | $as_root tee /etc/postgresql-common/createcluster.d/tidegate.conf >/dev/null
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
# shellcheck disable=SC2086 # several packages
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $wanted >/dev/null
