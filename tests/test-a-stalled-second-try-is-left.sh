#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A mirror that crawls is left in time also where that was not so clear from the
# start: at the second try there, and where the other mirror was out of order
# when the request began and came back meanwhile. A reader of one that is left
# alone gets an error: there the bytes would be late.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires net

mkdir tree
random_file 200000 tree/file
publish_tree tree mirror stall
start_httpd mirror
first_url=$httpd_url first_log=$httpd_log
start_httpd mirror
second_url=$httpd_url

# control URL QUERY
control() {
	httpd_url=$1 httpd_control "$2"
}

# Too fast for a stall, too slow for the reader.
crawls='add=trickle&n=1500&path=/packs/*'
fails_once='add=status&n=503&times=1&path=/packs/*'

# read_file MIRROR...
read_file() {
	rm -rf cache
	{
		printf '[larder]\ncache = %s\nkey = %s\ntimeout = 12s\n[stall]\n' \
			"$T/cache" "$T/test.key.pub"
		printf 'mirror = %s\n' "$@"
	} > two.conf
	larder cat -c two.conf stall:file > got 2> said
}

# Both fail once; the first crawls from then on.
control "$first_url" "clear"
control "$first_url" "$fails_once"
control "$first_url" "$crawls"
control "$second_url" "clear"
control "$second_url" "$fails_once"
read_file "$first_url" "$second_url" || fail "second try: $(cat said)"
cmp tree/file got
wait_for 30 sh -c "[ \$(grep -c /packs/ '$first_log') = 2 ]"

# The one that is asked first fails, and the other crawls.
control "$first_url" "clear"
control "$first_url" "$crawls"
control "$second_url" "clear"
control "$second_url" "$fails_once"
read_file "$second_url" "$first_url" || fail "from the start: $(cat said)"
cmp tree/file got

# Where the places are the part that crawls.
control "$first_url" "clear"
control "$first_url" "add=trickle&n=30&path=/places/*"
control "$second_url" "clear"
read_file "$first_url" "$second_url" || fail "places: $(cat said)"
cmp tree/file got
