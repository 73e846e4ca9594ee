#!/usr/bin/env bash
# with-mariadb.sh COMMAND [ARGUMENT...]
#
# Runs COMMAND with TEST_MARIADB_DSN naming a real MariaDB on which its user may
# create and drop databases, and exits as COMMAND does.
#
# TEST_MARIADB_DSN is used as it is, if it is set already. Otherwise, on Debian,
# the packages of MariaDB 10.11 are unpacked into .cache/mariadb (no root).
#
# The server is private to this run: fresh data, a free port of 127.0.0.1, and
# it ends with the run, whatever ends the run. Nothing it holds is meant to
# survive, so it is set up for speed and stopped with SIGKILL.
set -euo pipefail

[ $# -gt 0 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2; }
if [ -n "${TEST_MARIADB_DSN:-}" ]; then exec "$@"; fi

engine=mariadb variable=TEST_MARIADB_DSN
needed="a real MariaDB 10.6 or newer"
remedies=(
  "set TEST_MARIADB_DSN, e.g. 'user:password@tcp(127.0.0.1:3306)/', with rights to create and drop databases"
  "use Debian with access to its package archive"
)
ways=(debian_server)
options=(--max-allowed-packet=64M)

initialize() {
  local share=$cache/server/usr/share/mysql script
  mkdir -p "$run/new/mysql"
  {
    printf '%s;\n' 'CREATE DATABASE IF NOT EXISTS mysql' 'USE mysql' 'SET @auth_root_socket = NULL'
    for script in mysql_system_tables mysql_performance_tables mysql_system_tables_data maria_add_gis_sp_bootstrap mysql_sys_schema; do
      cat "$share/$script.sql"
    done
    printf '%s;\n' 'USE mysql' "DELETE FROM global_priv WHERE User = ''" 'FLUSH PRIVILEGES' \
      "CREATE USER 'test'@'%' IDENTIFIED BY 'test'" "GRANT ALL ON *.* TO 'test'@'%' WITH GRANT OPTION"
  } >"$run/init.sql" || return 1
  within 120 "$@" --bootstrap --datadir="$run/new" --log-warnings=0 --max-allowed-packet=8M \
    --innodb-flush-method=nosync <"$run/init.sql" >"$log" 2>&1
}

debian_server() {
  grep -qx 'ID=debian' /etc/os-release 2>/dev/null || { tried="this system is not Debian"; return 1; }
  "$here/fetch-server.sh" "$cache/server" bookworm mariadb-server-core ||
    { tried="Debian's MariaDB could not be unpacked (see above)"; return 1; }
  start_server "$cache/server/mysqld" || { server_log; tried="Debian's mariadbd did not start (see above)"; return 1; }
}

. "$(dirname "${BASH_SOURCE[0]}")/server.sh"
