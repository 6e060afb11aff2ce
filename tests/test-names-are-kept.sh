#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Names that URLs, shells and terminals dislike are kept byte for byte,
# and each reads its own content.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root nginx python3

cat > names.py <<'PY'
import os, sys
names = [b'100% sure', b'%41', b'A', b'%2e%2e', b'a+b', b'a b', b'a#b', b'a?b=c',
         b'a&b', b'a;b', b'http:x', b'C:\\x', b'"q"', b"'q'", b'[x]{y}', b'~', b'*',
         b' leading', b'trailing ', b'dot.', b'...', b'-rf', b'n' * 255,
         b'\xc3\xa9', b'e\xcc\x81', b'\xf0\x9f\x98\x80', b'\xd7\xa9\xd7\x9c',
         b'new\nline', b'tab\there', b'\xff\xfe', b'\x01', b'\x7f', b'$HOME', b'`x`',
         b'a\\', b'a:b', b'@', b'a@b', b'heads', b'.hidden', b'\xe2\x80\xae']
mode, root = sys.argv[1], os.fsencode(sys.argv[2])
if mode == 'make':
    for depth in (b'', b'one # two/', b'%2f/'):
        os.makedirs(os.path.join(root, depth), exist_ok=True)
        for name in names:
            with open(os.path.join(root, depth + name), 'wb') as file:
                file.write(depth + name)
        # too large to share a blob with others
        with open(os.path.join(root, depth + b'big? #' ), 'wb') as file:
            file.write(depth * 100000 + b'x' * 300000)
else:
    bad = 0
    for depth in (b'', b'one # two/', b'%2f/'):
        here = os.listdir(os.path.join(root, depth))
        want = set(names) | {b'big? #'}
        if not depth:
            want |= {b'one # two', b'%2f'}
        if set(here) != want or len(here) != len(want):
            print('names differ in', depth, set(here) ^ want)
            bad = 1
        for name in names:
            with open(os.path.join(root, depth + name), 'rb') as file:
                got = file.read()
            if got != depth + name:
                print(depth + name, 'reads as', got)
                bad = 1
    sys.exit(bad)
PY
python3 names.py make tree
publish_tree tree mirror odd
start_nginx mirror
n=0
for source in "$T/mirror#odd" "$nginx_url#odd"; do
	mount_dataset "$source" mnt "cache=$T/cache.$((++n))"
	python3 names.py check mnt
	diff -r tree mnt
	[ "$(cd tree && find . -print0 | sort -z | sha256sum)" = \
		"$(cd mnt && find . -print0 | sort -z | sha256sum)" ] ||
		fail "find differs"
	umount_dataset mnt
done

larder ls -o "cache=$T/cache.1,key=$T/test.key.pub" "$T/mirror#odd:one # two" > list
LC_ALL=C ls -A "tree/one # two" | LC_ALL=C sort > want
LC_ALL=C sort list | cmp - want
[ "$(larder cat -o "cache=$T/cache.1,key=$T/test.key.pub" \
	"$T/mirror#odd:one # two/a:b")" = "one # two/a:b" ] || fail "cat a:b"
larder ls --json -R -o "cache=$T/cache.1,key=$T/test.key.pub" "$T/mirror#odd" |
	python3 -c 'import json, sys; json.load(sys.stdin)'
