#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Random reads by pread and mmap (printed seed: SEED repeats them), many
# threads on one descriptor and on their own, equal the published files, cold,
# warm, and while the page cache is dropped.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root nginx python3

mkdir tree
random_file $((20 << 20)) tree/random
text_file $((20 << 20)) tree/text
{ head -c 3000000 tree/text; head -c 9000000 /dev/zero; cat tree/random; } > tree/mixed
random_file 100001 tree/small
: > tree/empty
truncate -s 9000001 tree/zeros
publish_tree tree mirror random
start_nginx mirror
seed=${SEED:-$(od -An -N 4 -tu4 /dev/urandom | tr -d ' ')}

mount_dataset "$nginx_url#random" mnt
(while sleep 0.2; do drop_caches; done) &
for round in cold warm; do
	for file in random text mixed small empty zeros; do
		random_reads -s "$seed" -t 8 -n 300 tree/$file mnt/$file ||
			fail "$round $file: SEED=$seed"
		random_reads -s "$seed" -t 8 -n 300 -1 tree/$file mnt/$file ||
			fail "$round $file, one descriptor: SEED=$seed"
	done
done
