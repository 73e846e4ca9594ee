# Sourced by with-mysql.sh and with-mariadb.sh: runs a command beside a database server that is private to this run.
# shellcheck shell=bash
#
# They say what differs:
#   engine, variable   the server's name, and the variable that names it to the command
#   ways               functions that set dsn, or tried, the reason why not, and return 1
#   initialize         COMMAND...: fill an empty data folder $run/new, with a user test (password test) who may do everything
#   options            further options of the server; SERVER_OPTIONS of the environment adds to them
#   needed, remedies   what to tell where no way works

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(dirname "$here")/.cache/$engine
say() { echo "$engine: $*" >&2; }
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
  if [ -s "$1/keeper" ]; then
    read -r pid when <"$1/keeper"
    if same "$pid" "$when"; then
      kill -KILL "$pid" 2>/dev/null || true
      while same "$pid" "$when"; do sleep 0.05; done
    fi
  fi
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

# start_server COMMAND...: a private server in $run; sets dsn.
start_server() {
  local version template port try server detach=() restarted log=$run/error.log
  version=$("$@" --version)
  template=$cache/template-$(sed 's/.*[Vv]er //; s/[^0-9A-Za-z.]/_/g' <<<"$version" | cut -c 1-60)
  set -- "$@" --user="$(id -un)"
  if [ ! -d "$template" ]; then
    say "preparing an empty data folder (once per server version)"
    initialize "$@" || return 1
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
    restarted=(${detach[@]+"${detach[@]}"} "$@" --datadir="$run/data" --bind-address=127.0.0.1 --port="$port" --socket=s.sock
      --log-error="$log" --pid-file=server.pid --max-connections=500
      --default-time-zone=+05:45 --innodb-print-all-deadlocks=ON --secure-file-priv=
      --skip-log-bin --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=OFF --innodb-flush-method=nosync
      --innodb-buffer-pool-size=256M ${options[@]+"${options[@]}"} ${SERVER_OPTIONS:-})
    "${restarted[@]}" </dev/null >>"$run/output" 2>&1 &
    server=$!
    echo "$server $(born $server)" >"$run/server"
    disown "$server"
    for ((i = 0; i < 600; i++)); do
      if grep -q "socket: .*port: $port" "$log"; then
        dsn="test:test@tcp(127.0.0.1:$port)/"
        [ -z "${SERVER_SURVIVES:-}" ] || keep_server "${restarted[@]}"
        return 0
      fi
      kill -0 "$server" 2>/dev/null || break
      sleep 0.1
    done
    grep -qi 'address already in use\|another mysqld server running on port' "$log" || break
  done
  return 1
}

# keep_server COMMAND...: starts the server again, on the same data and port, whenever it was killed, as long as this script lives.
keep_server() {
  local mine pid
  mine=$(born $$)
  (
    while same $$ "$mine" && [ -s "$run/server" ]; do
      read -r pid _ <"$run/server"
      if ! kill -0 "$pid" 2>/dev/null; then
        "$@" </dev/null >>"$run/output" 2>&1 &
        echo "$! $(born $!)" >"$run/server"
      fi
      sleep 0.2
    done
  ) </dev/null >/dev/null 2>&1 &
  echo "$! $(born $!)" >"$run/keeper"
  disown $!
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
for way in "${ways[@]}"; do
  dsn= tried=
  $way && break
  reasons+=("$tried")
  # What a way that failed left behind must not mix with the next one's.
  run_end "$run"; mkdir "$run"
done
if [ -z "$dsn" ]; then
  say "the tests need $needed, and there is none:"
  for reason in "${reasons[@]}"; do say "  - $reason"; done
  say "do one of these:"
  for remedy in "${remedies[@]}"; do say "  - $remedy"; done
  exit 1
fi

# A process group of its own, so that a signal reaches everything COMMAND started.
set -m
export "$variable=$dsn"
"$@" </dev/null &
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
