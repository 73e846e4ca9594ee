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
set -euo pipefail

[ $# -gt 0 ] || { sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 2; }
if [ -n "${TEST_MYSQL_DSN:-}" ]; then exec "$@"; fi

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(dirname "$here")/.cache/mysql
say() { echo "mysql: $*" >&2; }
within() { # SECONDS COMMAND...
  if command -v timeout >/dev/null; then timeout "$@"; else shift; "$@"; fi
}

# born PID prints when that process started (empty: no such process), so that a
# process id used again by a stranger is not taken for ours.
born() {
  if [ -r /proc/self/stat ]; then
    sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20
  else
    ps -o lstart= -p "$1" 2>/dev/null | tr -c '[:alnum:]\n' _
  fi
}
same() { [ -n "$2" ] && [ "$(born "$1")" = "$2" ]; } # PID BORN

# A run's folder is named after the process that owns it; run_end ends what is
# written there and removes it.
run=$cache/run-$$-$(born $$)
run_end() { # FOLDER
  local pid when
  if [ -s "$1/command" ]; then
    read -r pid when <"$1/command"
    if same "$pid" "$when"; then kill -KILL -- "-$pid" 2>/dev/null || true; fi
  fi
  if [ -s "$1/server" ]; then
    read -r pid when <"$1/server"
    if same "$pid" "$when"; then
      kill -KILL "$pid" 2>/dev/null || true
      while same "$pid" "$when"; do sleep 0.05; done
    fi
  fi
  if [ -s "$1/container" ]; then
    within 30 docker rm --force --volumes "$(cat "$1/container")" >/dev/null 2>&1 || true
  fi
  rm -rf "$1"
}
sweep() { # ends what runs left behind that were killed
  local old pid
  for old in "$cache"/run-*; do
    [ -d "$old" ] || continue
    pid=${old#"$cache"/run-}
    same "${pid%%-*}" "${pid#*-}" && continue
    say "cleaning up after an earlier run that was killed"
    run_end "$old"
  done
}

# is_mysql VERSION-LINE: 8.0 or newer, and not MariaDB.
is_mysql() {
  case $1 in *[Mm]aria[Dd][Bb]*) return 1 ;; esac
  local major
  major=$(sed -n 's/.*[Vv]er \([0-9]\{1,\}\)\..*/\1/p' <<<"$1")
  [ -n "$major" ] && [ "$major" -ge 8 ]
}

# start_server COMMAND...: a private server in $run; sets dsn.
start_server() {
  local version template port try server detach=() log=$run/error.log
  version=$("$@" --version)
  template=$cache/template-$(sed 's/.*[Vv]er //; s/[^0-9A-Za-z.]/_/g' <<<"$version" | cut -c 1-60)
  set -- "$@" --user="$(id -un)"
  if [ ! -d "$template" ]; then
    say "preparing an empty data folder (once per server version)"
    echo "CREATE USER 'test'@'%' IDENTIFIED BY 'test'; GRANT ALL ON *.* TO 'test'@'%' WITH GRANT OPTION;" >"$run/init.sql"
    within 120 "$@" --initialize-insecure --datadir="$run/new" --init-file="$run/init.sql" \
      --innodb-flush-method=nosync --log-error="$log" >&2 || return 1
    rm -f "$run/new/auto.cnf" # each server makes its own identity
    [ -d "$template" ] || mv "$run/new" "$template" || return 1
  fi
  cp -R "$template" "$run/data" || return 1

  # Its own session keeps the server out of Ctrl-C's way; the death signal ends
  # it at once when this script is killed, where the system has that.
  if command -v setsid >/dev/null; then detach=(setsid); fi
  if setpriv --pdeathsig KILL true 2>/dev/null; then detach+=(setpriv --pdeathsig KILL); fi
  for try in 1 2 3 4 5 6 7 8 9 10; do
    port=$((20000 + (RANDOM * 32768 + RANDOM) % 10000)) # below the ports of outgoing connections
    : >"$log"
    # The odd time zone is deliberate: nothing may depend on the server's own.
    ${detach[@]+"${detach[@]}"} "$@" --datadir="$run/data" --bind-address=127.0.0.1 --port="$port" --socket=s.sock \
      --mysqlx=OFF --log-error="$log" --pid-file=server.pid --max-connections=500 \
      --default-time-zone=+05:45 --innodb-print-all-deadlocks=ON --secure-file-priv= \
      --skip-log-bin --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=OFF --innodb-flush-method=nosync \
      --innodb-buffer-pool-size=256M </dev/null >>"$run/output" 2>&1 &
    server=$!
    echo "$server $(born $server)" >"$run/server"
    disown "$server"
    for ((i = 0; i < 600; i++)); do
      if grep -q "ready for connections.*port: $port" "$log"; then
        dsn="test:test@tcp(127.0.0.1:$port)/"
        return 0
      fi
      kill -0 "$server" 2>/dev/null || break
      sleep 0.1
    done
    grep -qi 'address already in use\|another mysqld server running on port' "$log" || break
  done
  return 1
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
  "$here/fetch-mysql.sh" "$cache/server" || { tried="Debian's MySQL could not be unpacked (see above)"; return 1; }
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
    --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=OFF --mysqlx=OFF >/dev/null ||
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
server_log() {
  tail -n 15 "$run/error.log" "$run/output" >&2 2>/dev/null || true
}

child=
finish() {
  trap '' INT TERM HUP
  [ -z "$child" ] || kill -KILL -- "-$child" 2>/dev/null || true
  cp "$run/error.log" "$cache/last-error.log" 2>/dev/null || true
  run_end "$run"
}
interrupted() { # SIGNAL STATUS
  if [ -n "$child" ]; then
    kill -s "$1" -- "-$child" 2>/dev/null || true
    for ((i = 0; i < 100; i++)); do kill -0 -- "-$child" 2>/dev/null || break; sleep 0.1; done
  fi
  exit "$2"
}

mkdir -p "$cache"
sweep
mkdir "$run"
trap finish EXIT
trap 'interrupted INT 130' INT
trap 'interrupted TERM 143' TERM
trap 'interrupted HUP 129' HUP

reasons=()
for way in own_server debian_server docker_server; do
  dsn= tried=
  $way && break
  reasons+=("$tried")
  # What a way that failed left behind must not mix with the next one's.
  run_end "$run"; mkdir "$run"
done
if [ -z "$dsn" ]; then
  say "the tests need a real MySQL 8.0 or newer, and there is none:"
  for reason in "${reasons[@]}"; do say "  - $reason"; done
  say "do one of these:"
  say "  - set TEST_MYSQL_DSN, e.g. 'user:password@tcp(127.0.0.1:3306)/', with rights to create and drop databases"
  say "  - install MySQL's server so that mysqld is on PATH (MariaDB does not count)"
  say "  - use Debian with access to its package archive"
  say "  - start Docker"
  exit 1
fi

# A process group of its own, so that a signal reaches everything COMMAND started.
set -m
TEST_MYSQL_DSN=$dsn "$@" </dev/null &
child=$!
set +m
echo "$child $(born $child)" >"$run/command"
status=0
wait "$child" || status=$?
if [ "$status" -ne 0 ] && [ -s "$run/server" ] && ! kill -0 "$(cut -d' ' -f1 "$run/server")" 2>/dev/null; then
  say "the server ended during the run; its last words:"
  server_log
fi
exit "$status"
