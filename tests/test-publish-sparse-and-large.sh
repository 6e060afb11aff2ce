#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
#
# A sparse terabyte is published in seconds, and memory stays below 256 MiB
# whatever the sizes.
. "${top_srcdir:-.}/tests/lib.sh"
requires python3

mkdir tree
truncate -s 1T tree/sparse 2> /dev/null || skip "no files of a terabyte here"
printf data | dd of=tree/sparse bs=1 seek=700000000000 conv=notrunc 2> dd.err
head -c 300000000 /dev/urandom > tree/random
head -c 20000000 /dev/zero > tree/zeros

cat > peak.py <<'PY'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=open("result.json", "w"))
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
PY
SECONDS=0
peak=$(python3 peak.py larder publish -n set --threads 2 --json tree mirror 2> said) ||
	{ cat said >&2; fail "cannot publish"; }
echo "$SECONDS s, peak $peak KiB"
case ${SANITIZERS:-no} in
no) [ "$peak" -lt 262144 ] || fail "peak memory $peak KiB" ;;
esac
python3 - <<'PY'
import json
result = json.load(open("result.json"))
assert result["bytes"] == 2**40 + 320000000, result
assert 300000000 <= result["new_bytes"] < 300000000 + 5 * 2**20, result
assert result["zero_bytes"] > 2**40, result
PY
larder check mirror > check || { cat check; fail "the mirror is bad"; }
