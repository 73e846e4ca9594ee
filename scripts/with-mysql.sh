#!/usr/bin/env bash
# with-mysql.sh COMMAND [ARGUMENT...]
#
# Runs COMMAND with TEST_MYSQL_DSN naming a real MySQL (8.0 or newer) on which
# its user may create and drop databases, and exits as COMMAND does.
#
# The first of these that works is used:
#   1. TEST_MYSQL_DSN, if it is set already: used as it is
#   2. a mysqld on PATH that is MySQL 8.0 or newer (a MariaDB one is not)
#   3. on Debian: its MySQL packages, unpacked into .cache/mysql (no root)
#   4. Docker with the image mysql:8 (BATCHBOT_MYSQL_IMAGE names another)
#
# The server is private to this run: fresh data, a free port of 127.0.0.1, and
# it ends with the run, whatever ends the run. Nothing it holds is meant to
# survive, so it is set up for speed and stopped with SIGKILL.
#
# With SERVER_SURVIVES=1 what is committed survives SIGKILL of the server, and
# one that was killed is started again on the same data and port: for tests
# that kill it. Ways 1 and 4 do not offer that and are passed over.
set -euo pipefail

[ $# -gt 0 ] || { sed -n '2,20s/^# \{0,1\}//p' "$0"; exit 2; }
if [ -n "${TEST_MYSQL_DSN:-}" ] && [ -z "${SERVER_SURVIVES:-}" ]; then exec "$@"; fi

engine=mysql variable=TEST_MYSQL_DSN
needed="a real MySQL 8.0 or newer"
remedies=(
  "set TEST_MYSQL_DSN, e.g. 'user:password@tcp(127.0.0.1:3306)/', with rights to create and drop databases"
  "install MySQL's server so that mysqld is on PATH (MariaDB does not count)"
  "use Debian with access to its package archive"
  "start Docker"
)
ways=(own_server debian_server docker_server)
options=(--mysqlx=OFF)
if [ -n "${SERVER_SURVIVES:-}" ]; then
  ways=(own_server debian_server)
  options+=(--innodb-flush-log-at-trx-commit=1 --innodb-doublewrite=ON)
fi

# is_mysql VERSION-LINE: 8.0 or newer, and not MariaDB.
is_mysql() {
  case $1 in *[Mm]aria[Dd][Bb]*) return 1 ;; esac
  local major
  major=$(sed -n 's/.*[Vv]er \([0-9]\{1,\}\)\..*/\1/p' <<<"$1")
  [ -n "$major" ] && [ "$major" -ge 8 ]
}

initialize() {
  echo "CREATE USER 'test'@'%' IDENTIFIED BY 'test'; GRANT ALL ON *.* TO 'test'@'%' WITH GRANT OPTION;" >"$run/init.sql"
  within 120 "$@" --initialize-insecure --datadir="$run/new" --init-file="$run/init.sql" \
    --innodb-flush-method=nosync --log-error="$log" >&2 || return 1
  rm -f "$run/new/auto.cnf" # each server makes its own identity
}

own_server() {
  local mysqld version
  mysqld=$(PATH=$PATH:/usr/sbin:/usr/local/sbin command -v mysqld) || { tried="no mysqld on PATH"; return 1; }
  version=$("$mysqld" --no-defaults --version 2>/dev/null) || version=
  is_mysql "$version" || { tried="$mysqld is not MySQL 8.0 or newer ($version)"; return 1; }
  start_server "$mysqld" --no-defaults || { server_log; tried="$mysqld did not start (see above)"; return 1; }
}
debian_server() {
  grep -qx 'ID=debian' /etc/os-release 2>/dev/null || { tried="this system is not Debian"; return 1; }
  "$here/fetch-server.sh" "$cache/server" sid mysql-server-core || { tried="Debian's MySQL could not be unpacked (see above)"; return 1; }
  start_server "$cache/server/mysqld" || { server_log; tried="Debian's mysqld did not start (see above)"; return 1; }
}
docker_server() {
  local name=batchbot-${run##*/} port
  command -v docker >/dev/null || { tried="no docker on PATH"; return 1; }
  within 20 docker info >/dev/null 2>&1 || { tried="no Docker engine answers"; return 1; }
  say "starting the image ${BATCHBOT_MYSQL_IMAGE:=mysql:8} (the first time it is downloaded)"
  echo "$name" >"$run/container"
  within 600 docker run --detach --rm --name "$name" --publish 127.0.0.1::3306 --env MYSQL_ROOT_PASSWORD=test \
    --tmpfs /var/lib/mysql "$BATCHBOT_MYSQL_IMAGE" --max-connections=500 --default-time-zone=+05:45 --skip-log-bin \
    --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=OFF --mysqlx=OFF ${SERVER_OPTIONS:-} >/dev/null ||
    { tried="docker run failed (see above)"; return 1; }
  port=$(docker port "$name" 3306/tcp | sed -n '1s/.*://p')
  for ((i = 0; i < 120; i++)); do
    # Over TCP: the image's set-up server listens on its socket only.
    if docker exec --env MYSQL_PWD=test "$name" mysql --host=127.0.0.1 --user=root --execute='SELECT 1' >/dev/null 2>&1; then
      dsn="root:test@tcp(127.0.0.1:$port)/"
      return 0
    fi
    sleep 0.5
  done
  docker logs --tail 20 "$name" >&2 || true
  tried="the container did not become ready within a minute (see above)"
  return 1
}
. "$(dirname "${BASH_SOURCE[0]}")/server.sh"
