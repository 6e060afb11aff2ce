#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# HTTP proxies, as an option and of the environment: one that caches, one that
# wants a password, tunnels to https; no_proxy; and dead ones, those that refuse
# and those that answer a login page, which errors name without passwords.
. "${top_srcdir:-.}/tests/lib.sh"
requires net nginx tinyproxy openssl

mkdir tree
head -c 400000 /dev/urandom > tree/file
publish_tree tree mirror set
start_nginx mirror
origin_log=$nginx_log
source=$nginx_url#set:file

reads() {
	rm -rf cache
	larder cat -o key=test.key.pub,cache=cache "$@" "$source" > got
	cmp got tree/file || fail "wrong bytes: $*"
}

refuses() {
	rm -rf cache
	expect_fail "$1" larder cat --debug=all \
		-o key=test.key.pub,cache=cache,timeout=1s "${@:2}" "$source"
	larder cat --debug=all -o key=test.key.pub,cache=cache,timeout=1s \
		"${@:2}" "$source" > said 2>&1 || true
	! grep -q hidden said || fail "a password is shown: $(cat said)"
}

# One that caches.
mkdir stored
nginx_http="proxy_cache_path $T/stored keys_zone=stored:1m;" start_nginx mirror \
	'proxy_pass http://$http_host$request_uri; proxy_cache stored;
	proxy_cache_valid 1h;'
proxy=$nginx_url proxy_log=$nginx_log
reads --proxy="$proxy"
grep -q ' 206 ' "$proxy_log" || fail "the proxy was not asked"
: > "$origin_log"
reads --proxy="${proxy#http://}"
! grep packs "$origin_log" || fail "the proxy's cache was passed by"
for name in http_proxy all_proxy ALL_PROXY; do
	: > "$proxy_log"
	(export $name="$proxy"; reads)
	grep -q packs "$proxy_log" || fail "$name was not followed"
done
: > "$proxy_log"
HTTP_PROXY=$proxy reads
https_proxy=$proxy reads
http_proxy=$proxy reads --proxy=
http_proxy=$proxy no_proxy=example.org,127.0.0.0/8 reads
NO_PROXY=127.0.0.1 reads --proxy="$proxy"
! grep . "$proxy_log" || fail "a proxy was asked that should not be"

# One that wants a password, and tunnels.
cat > tinyproxy.conf <<-CONF
	Listen 127.0.0.1
	Port PORT
	Timeout 60
	BasicAuth larder hidden
	LogFile "$T/tinyproxy.log"
	ConnectPort 443
CONF
start_tinyproxy() {
	local try
	for ((try = 0; try < 20; try++)); do
		tinyproxy_port=$(lib_random_port)
		sed "s/PORT/$tinyproxy_port/; s/^ConnectPort.*/ConnectPort $1/" \
			tinyproxy.conf > tinyproxy.now
		: > tinyproxy.log
		tinyproxy -d -c tinyproxy.now > tinyproxy.out 2>&1 &
		tinyproxy_pid=$!
		wait_for 20 tinyproxy_is_decided
		! lib_has_ended $tinyproxy_pid && return 0
	done
	fail "no tinyproxy: $(cat tinyproxy.out tinyproxy.log)"
}
tinyproxy_is_decided() {
	lib_has_ended $tinyproxy_pid ||
		grep -q 'Accepting connections\|listening on fd' tinyproxy.log
}

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout \
	tls.key -out tls.pem -days 2 -subj /CN=x -addext \
	subjectAltName=IP:127.0.0.1 2> log
nginx_listen=ssl nginx_server="ssl_certificate $T/tls.pem;
	ssl_certificate_key $T/tls.key;" start_nginx mirror
tls_source=https://127.0.0.1:$nginx_port#set:file
start_tinyproxy "$nginx_port"
with_password=http://larder:hidden@127.0.0.1:$tinyproxy_port
named="proxy 'http://127.0.0.1:$tinyproxy_port'"
for source in "$source" "$tls_source"; do
	reads --proxy="$with_password" --ca=tls.pem
	http_proxy=$with_password HTTPS_PROXY=$with_password reads --ca=tls.pem
	refuses "$named: HTTP 407: give proxy=http://USER:PASSWORD@HOST" \
		--proxy="127.0.0.1:$tinyproxy_port" --ca=tls.pem
	refuses "$named: HTTP 40[17]" --ca=tls.pem \
		--proxy="http://larder:hidden-but-wrong@127.0.0.1:$tinyproxy_port"
	refuses "proxy 'http://127.0.0.1:1/?': connection refused" \
		--proxy=http://larder:hidden@127.0.0.1:1/
	refuses "proxy 'http://no-such-proxy.invalid': name of the host not found" \
		--proxy=http://larder:hidden@no-such-proxy.invalid
done
grep -q CONNECT tinyproxy.log || fail "no tunnel"

# A login page instead of everything; a proxy that is broken.
source=http://127.0.0.1:1#set:file
start_nginx mirror "default_type text/html;
	return 200 '<html><form>user password</form></html>';"
refuses "via proxy '$nginx_url': a page of HTML instead of the file" --proxy="$nginx_url"
start_nginx mirror 'return 502;'
refuses "via proxy '$nginx_url': HTTP 502" --proxy="$nginx_url"
