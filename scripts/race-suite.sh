#!/usr/bin/env bash
# race-suite.sh ENGINE COUNT
#
# Runs the store's race tests (storetest/race*.go) COUNT times on ENGINE: sqlite,
# mysql or mariadb. A pass may take 20 seconds. Each race is repeated for
# RACE_TIME (1.5s), four side by side; how many rounds that makes is up to the
# machine and is printed. Ends at the first pass that fails, with what it printed.
# The race detector is left to `make test`: it slows SQLite down tenfold, and
# here it is the transactions that are to meet.
set -euo pipefail

engine=${1:-} count=${2:-1}
usage() { echo "race-suite: use make race-suite ENGINE=sqlite|mysql|mariadb COUNT=n, n from 1" >&2; exit 2; }
[[ $count =~ ^[1-9][0-9]{0,5}$ ]] || usage
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tags=
case $engine in
  sqlite) suite=TestSQLite ;;
  mysql)
    suite=TestMySQL
    if [ -z "${TEST_MYSQL_DSN:-}" ]; then exec scripts/with-mysql.sh scripts/race-suite.sh "$engine" "$count"; fi
    ;;
  mariadb)
    suite=TestMariaDB tags=mariadb
    if [ -z "${TEST_MARIADB_DSN:-}" ]; then exec scripts/with-mariadb.sh scripts/race-suite.sh "$engine" "$count"; fi
    ;;
  *) usage ;;
esac

export RACE_TIME=${RACE_TIME:-1500ms}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 go test -c -tags "$tags" -o "$work/store.test" ./store
cd store
slowest=0 all=0
for ((pass = 1; pass <= count; pass++)); do
  before=${EPOCHREALTIME/[.,]/}
  if ! "$work/store.test" -test.run "^$suite\$/^race\$" -test.parallel 4 -test.timeout 20s -test.v >"$work/output" 2>&1; then
    cat "$work/output"
    echo "race-suite: pass $pass of $count on $engine failed" >&2
    exit 1
  fi
  took=$(((${EPOCHREALTIME/[.,]/} - before) / 1000))
  ((took <= slowest)) || slowest=$took
  tests=$(grep -c "^ *--- PASS: $suite/race/" "$work/output") || { echo "race-suite: there are no race tests" >&2; exit 1; }
  rounds=$(awk '/ rounds, .* looks at the tables/ { n += $2 } END { print n + 0 }' "$work/output")
  looks=$(awk '/ rounds, .* looks at the tables/ { n += $4 } END { print n + 0 }' "$work/output")
  all=$((all + rounds))
  echo "pass $pass/$count: $tests races, $rounds rounds, $looks looks at the tables, $took ms"
done
echo "$count passes on $engine, none failed; $all rounds; the slowest pass took $slowest ms"
