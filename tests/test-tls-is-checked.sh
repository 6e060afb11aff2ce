#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# https: HTTP/2 is used where offered; unknown authorities, expired
# certificates, other hosts' names, old versions of TLS and missing client
# certificates are refused, each named with what to do; nothing leads from https
# to http.
. "${top_srcdir:-.}/tests/lib.sh"
requires net nginx openssl

mkdir tree
echo hello > tree/file
publish_tree tree mirror set

# authority NAME: NAME.pem and NAME.key
authority() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
		-keyout "$1.key" -out "$1.pem" -days 2 -subj "/CN=$1" 2> log
}

# certificate AUTHORITY NAME DAYS ALTERNATIVE-NAMES. Days below 0: OpenSSL since 3.5
# wants to hear when instead, which the one before 3.4 cannot.
certificate() {
	local days=(-days "$3")
	[ "$3" -gt 0 ] || ! openssl x509 -help 2>&1 | grep -q -e -not_after ||
		days=(-not_before 20200101000000Z -not_after 20200102000000Z)
	openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
		-keyout "$2.key" -out "$2.csr" -subj "/CN=$2" 2> log
	echo "subjectAltName=$4" > extensions
	openssl x509 -req -in "$2.csr" -CA "$1.pem" -CAkey "$1.key" \
		-CAcreateserial "${days[@]}" -extfile extensions \
		-out "$2.pem" 2> log
}

authority ca
authority other-ca
certificate ca server 2 IP:127.0.0.1,DNS:localhost
certificate ca expired -1 IP:127.0.0.1
certificate ca elsewhere 2 DNS:mirror.example
certificate ca client 2 DNS:client
certificate other-ca stranger 2 DNS:client

# serve CERTIFICATE [SERVER-DIRECTIVES [LOCATION-DIRECTIVES]]: sets url
serve() {
	nginx_listen='ssl http2'
	nginx_server="ssl_certificate $T/$1.pem; ssl_certificate_key $T/$1.key;
		${2-}"
	start_nginx mirror "${3-}"
	url=https://127.0.0.1:$nginx_port
}

reads() {
	rm -rf cache
	[ "$(larder cat -o key=test.key.pub,cache=cache "$@" "$url#set:file")" \
		= hello ] || fail "cannot read $url: $*"
}

refuses() {
	rm -rf cache
	expect_fail "$1" larder cat \
		-o key=test.key.pub,cache=cache,timeout=1s "${@:2}" \
		"$url#set:file"
}

serve server
good=$url
reads --ca=ca.pem
grep -q 'HTTP/2.0 206' "$nginx_log" || fail "no HTTP/2: $(cat "$nginx_log")"
refuses 'of an unknown authority: give ca=FILE'
refuses 'of an unknown authority' --ca=other-ca.pem
refuses "cannot read certificates '.*none.pem': No such file" --ca=none.pem
refuses 'cannot use the CA file: check ca' --ca=tree/file
url=http://127.0.0.1:$nginx_port
refuses 'HTTP 400: the server speaks TLS on this port: use https://'

serve expired
refuses "the server's certificate has expired" --ca=ca.pem
serve elsewhere
refuses "the certificate is for another host's name" --ca=ca.pem
serve server 'ssl_protocols TLSv1.1; ssl_ciphers ALL:@SECLEVEL=0;'
refuses 'no version of TLS in common: 1.2 or later' --ca=ca.pem
serve server 'ssl_protocols TLSv1.2;'
reads --ca=ca.pem

for version in TLSv1.2 TLSv1.3; do
	serve server "ssl_client_certificate $T/ca.pem; ssl_verify_client on;
		ssl_protocols $version;"
	refuses 'wants a client certificate: give cert and cert-key' --ca=ca.pem
	refuses 'does not trust the client certificate: check cert' \
		--ca=ca.pem --cert=stranger.pem --cert-key=stranger.key
	reads --ca=ca.pem --cert=client.pem --cert-key=client.key
done
cat client.pem client.key > both.pem
reads --ca=ca.pem --cert=both.pem
refuses 'cannot use the client certificate: check cert and cert-key' \
	--ca=ca.pem --cert=client.pem --cert-key=stranger.key
refuses "cannot read client certificate '.*none.pem'" --cert=none.pem
refuses "cannot read key of the client certificate '.*none.key'" \
	--cert=client.pem --cert-key=none.key
picky=$url

# The certificate stays with the origin.
serve server '' "return 302 $picky\$request_uri;"
refuses 'wants a client certificate' --ca=ca.pem --cert=both.pem
nginx_listen='' nginx_server=''
start_nginx mirror
plain=$nginx_url
url=https://127.0.0.1:$nginx_port
refuses 'no TLS on this port: check it, or use http://' --ca=ca.pem
serve server '' "return 302 $plain\$request_uri;"
refuses 'redirect from https to http' --ca=ca.pem
serve server '' "return 302 $good\$request_uri;"
reads --ca=ca.pem
