#!/usr/bin/env bash
# with-cluster.sh COMMAND [ARGUMENT...]
#
# Runs COMMAND with TEST_CLUSTER naming the three nodes of a real MySQL group
# (Group Replication with a single primary), one DSN after the other, and exits
# as COMMAND does. A node that COMMAND kills is started again and rejoins by
# itself; `SELECT @@pid_file` on a node tells where its process id is.
#
# On Debian: the MySQL packages that with-mysql.sh uses, unpacked into
# .cache/mysql (no root). The group is private to this run: fresh data, free
# ports of 127.0.0.1, and it ends with the run, whatever ends the run.
set -euo pipefail

[ $# -gt 0 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2; }

engine=cluster variable=TEST_CLUSTER
needed="a real MySQL group of three"
remedies=("use Debian with access to its package archive")
ways=(debian_cluster)

initialize() {
  echo "CREATE USER 'test'@'%' IDENTIFIED BY 'test'; GRANT ALL ON *.* TO 'test'@'%' WITH GRANT OPTION;" >"$run/init.sql"
  within 120 "$@" --initialize-insecure --datadir="$run/new" --init-file="$run/init.sql" \
    --innodb-flush-method=nosync --log-error="$run/error.log" >&2 || return 1
  rm -f "$run/new/auto.cnf" # each server makes its own identity
}
debian_cluster() {
  local mysqld=$cache/../mysql/server/mysqld template try port n
  grep -qx 'ID=debian' /etc/os-release 2>/dev/null || { tried="this system is not Debian"; return 1; }
  "$here/fetch-server.sh" "${mysqld%/*}" sid mysql-server-core || { tried="Debian's MySQL could not be unpacked (see above)"; return 1; }
  template=$cache/template-$("$mysqld" --version | sed 's/.*[Vv]er //; s/[^0-9A-Za-z.]/_/g' | cut -c 1-60)
  if [ ! -d "$template" ]; then
    say "preparing an empty data folder (once per server version)"
    initialize "$mysqld" --user="$(id -un)" || { server_log; tried="the data folder could not be prepared (see above)"; return 1; }
    [ -d "$template" ] || mv "$run/new" "$template" || return 1
  fi
  say "starting three nodes"
  for try in 1 2 3 4 5; do
    port=$((20000 + (RANDOM * 32768 + RANDOM) % 10000)) # below the ports of outgoing connections
    rm -f "$run/error.log"
    for n in 1 2 3; do
      rm -rf "${run:?}/$n"
      mkdir "$run/$n" && cp -R "$template" "$run/$n/data" || return 1
    done
    setsid setpriv --pdeathsig KILL "$here/cluster.sh" "$run" "$port" "$mysqld" </dev/null >"$run/output" 2>&1 &
    echo "$! $(born $!)" >"$run/server"
    disown $!
    for ((i = 0; i < 900; i++)); do
      if [ "0$(grep -c 'This server was declared online' "$run/error.log" 2>/dev/null)" -ge 3 ]; then
        dsn="test:test@tcp(127.0.0.1:$port)/ test:test@tcp(127.0.0.1:$((port + 1)))/ test:test@tcp(127.0.0.1:$((port + 2)))/"
        return 0
      fi
      kill -0 "$(cut -d' ' -f1 "$run/server")" 2>/dev/null || break
      sleep 0.1
    done
    grep -qi 'address already in use\|another mysqld server running on port\|unable to announce tcp port' "$run/error.log" || break
  done
  server_log
  tried="the group did not form (see above)"
  return 1
}
. "$(dirname "${BASH_SOURCE[0]}")/server.sh"
