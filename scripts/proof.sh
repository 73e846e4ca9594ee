#!/usr/bin/env bash
# proof.sh PATTERN [TEST FLAG...]
#
# Builds batchbot and its tests with fault points and runs the tests named by
# PATTERN beside a MySQL that they may kill. SEED, COUNT and PROOF_LOGS (a
# folder for what the instances logged in a run with violations) reach them.
# MUTANT names a guard of bot/mutant that the bot is to be without: the proof
# must then fail.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ $# -gt 0 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
pattern=$1
shift

out=$PWD/.cache/proof${MUTANT:+-mutant}
mkdir -p "$out"
[ -z "${PROOF_LOGS:-}" ] || PROOF_LOGS=$(realpath -m "$PROOF_LOGS")
export CGO_ENABLED=0
go build -tags "faultpoints${MUTANT:+,mutate}" -o "$out/batchbot" ./cmd/batchbot
go test -tags faultpoints -c -o "$out/proof.test" ./cmd/batchbot
cd cmd/batchbot
PROOF_BINARY=$out/batchbot SERVER_SURVIVES=1 exec ../../scripts/with-mysql.sh "$out/proof.test" -test.run "$pattern" -test.parallel 4 "$@"
