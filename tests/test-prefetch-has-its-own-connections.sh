#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Readers share a connection of HTTP/2; a prefetch has connections of its own,
# so that it can stand still without them.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net nginx openssl

mkdir tree
random_file 30000000 tree/large
random_file 9000000 tree/other
publish_tree tree mirror set
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
	-keyout key.pem -out ca.pem -days 2 -subj /CN=mirror \
	-addext subjectAltName=IP:127.0.0.1 2> log
nginx_listen='ssl http2'
nginx_server="ssl_certificate $T/ca.pem; ssl_certificate_key $T/key.pem;"
start_nginx mirror
url=https://127.0.0.1:$nginx_port

packs_over() { # VERSION
	nginx_settle
	grep -c "^GET /packs/.* HTTP/$1 206" "$nginx_log" || true
}

mount_dataset "$url#set" mnt "ca=$T/ca.pem"
cmp tree/other mnt/other
[ "$(packs_over 1.1)" = 0 ] && [ "$(packs_over 2.0)" -gt 0 ] ||
	fail "readers not over HTTP/2: $(cat "$nginx_log")"
: > "$nginx_log"
larder prefetch mnt/large > said 2>&1 || fail "$(cat said)"
[ "$(packs_over 2.0)" = 0 ] && [ "$(packs_over 1.1)" -gt 0 ] ||
	fail "prefetch not apart: $(cat "$nginx_log")"
cmp tree/large mnt/large
umount_dataset mnt
