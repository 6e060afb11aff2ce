#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
#
# A random tree (printed seed: SEED repeats it) is equal in content and
# metadata when published and mounted, from a directory and from nginx, cold
# and warm. LARDER_TEST_FULL=1: with a file of 5 GiB.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root nginx python3

big=$((150 << 20))
[ -z "${LARDER_TEST_FULL-}" ] || big=$((5 << 30))
make_tree ${SEED:+--seed "$SEED"} --big $big tree
publish_tree tree mirror random
start_nginx mirror

round() {
	mount_dataset "$1#random" mnt "cache=$T/cache.$2"
	compare_trees tree mnt
	drop_caches
	compare_trees tree mnt
	umount_dataset mnt
}
round "file://$T/mirror" file
round "$nginx_url" nginx
larder check mirror
