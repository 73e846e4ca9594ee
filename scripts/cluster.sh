#!/usr/bin/env bash
# cluster.sh FOLDER PORT COMMAND [ARGUMENT...]
#
# Keeps the nodes of a MySQL group running, as a service manager does: a node
# that ends, whatever ended it, is started again after a second and joins by
# itself. COMMAND is mysqld, the data of node N is in FOLDER/N, where its pid
# goes too; all nodes write to FOLDER/error.log. PORT is the first of three free
# ports.
#
# Node 1 founds the group when it starts first, and never again. All settings
# are the server's own, except where a comment gives the reason.
#
# This one process is the parent of all nodes and they end with it (the death
# signal), so that killing it with SIGKILL leaves nothing running.
set -euo pipefail

run=$1 port=$2; shift 2
mysqld=("$@")
name=$(sed -n 1p /proc/sys/kernel/random/uuid)
seeds=127.0.0.1:$port,127.0.0.1:$((port + 1)),127.0.0.1:$((port + 2))
# How a node that was away fetches what it missed.
echo "CHANGE REPLICATION SOURCE TO SOURCE_USER = 'test', SOURCE_PASSWORD = 'test' FOR CHANNEL 'group_replication_recovery';" >"$run/join.sql"
declare -A node # process → number of its node

start() { # NUMBER [ARGUMENT...]
  local n=$1; shift
  local options=(
    --user="$(id -un)" --datadir="$run/$n/data" --bind-address=127.0.0.1 --port=$((port + n - 1)) --socket=s.sock
    --log-error="$run/error.log" --pid-file="$run/$n/pid" --init-file="$run/join.sql" --mysqlx=OFF --secure-file-priv= --max-connections=500
    --default-time-zone=+05:45 --innodb-buffer-pool-size=128M
    # As docs/database.md demands of a cluster: what was acknowledged is on the disk of its node.
    --innodb-flush-log-at-trx-commit=1 --sync-binlog=1
    --server-id="$n" --report-host=127.0.0.1 --report-port=$((port + n - 1)) --gtid-mode=ON --enforce-gtid-consistency=ON
    --plugin-load-add=group_replication.so
    --loose-group-replication-group-name="$name"
    --loose-group-replication-communication-stack=MYSQL # on the clients' port
    --loose-group-replication-local-address=127.0.0.1:$((port + n - 1)) --loose-group-replication-group-seeds="$seeds"
    --loose-group-replication-single-primary-mode=ON
    --loose-group-replication-consistency=BEFORE_ON_PRIMARY_FAILOVER
    # A node that is silent for five seconds is replaced at once; by default it gets another fifteen.
    --loose-group-replication-member-expel-timeout=0
    --loose-group-replication-start-on-boot=ON
    # A node that cannot join, because the group has not noticed yet that its former self is dead, ends and is started again.
    --loose-group-replication-exit-state-action=ABORT_SERVER
    --loose-group-replication-recovery-get-public-key=ON
  )
  setsid setpriv --pdeathsig KILL "${mysqld[@]}" "${options[@]}" "$@" </dev/null >>"$run/output" 2>&1 &
  node[$!]=$n
}

start 1 --loose-group-replication-bootstrap-group=ON
until grep -q 'This server was declared online' "$run/error.log" 2>/dev/null; do
  kill -0 $! 2>/dev/null || exit 1
  sleep 0.1
done
start 2
start 3
while :; do
  gone=
  wait -n -p gone || true
  [ -n "$gone" ] || exit 1
  n=${node[$gone]}
  unset "node[$gone]"
  sleep 1
  start "$n"
done
