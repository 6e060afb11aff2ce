#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# SIGHUP: new sections of the configuration appear in a mount without touching
# what is open; changed and removed ones stay as they are and are reported, a
# broken configuration changes nothing, a new section that cannot work says why.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root

mkdir -p one two conf/datasets.d mnt
echo first > one/file
echo second > two/file
publish_tree one mirror1 one
publish_tree two mirror2 two
cat > conf/larder.conf <<CONF
[larder]
cache = $T/cache
key = test.key.pub
[one]
mirror = mirror1
CONF
# relative paths count from where it was started
larder mount -f -c conf/larder.conf mnt 2> log &
daemon=$!
wait_for 20 test -e mnt/one/file
exec 5< mnt/one/file
inode=$(stat -c %i mnt/one/file)
! ls mnt/deep 2> said || fail "deep is there already"
[ "$(ls mnt)" = one ]

said() { grep -q "$1" log; }
reload() {
	: > log
	kill -HUP "$daemon"
	wait_for 20 said "$1"
}

cat > conf/datasets.d/deep.conf <<CONF
[deep/down/two]
mirror = mirror2
name = two
[deep/broken]
mirror = mirror2
key = nowhere.pub
CONF
reload 'the configuration was read again'
[ "$(cat mnt/deep/down/two/file)" = second ]
[ "$(ls mnt mnt/deep)" = "$(printf 'mnt:\ndeep\none\n\nmnt/deep:\nbroken\ndown')" ] ||
	fail "$(ls mnt mnt/deep)"
expect_fail 'Input/output error' cat mnt/deep/broken/file
getfattr --only-values -n user.larder.error mnt/deep/broken | grep -q nowhere.pub
[ "$(stat -c %i mnt/one/file)" = "$inode" ] || fail "another inode number"
[ "$(cat <&5)" = first ]
# listings agree with look-ups
[ "$(find mnt -type f | sort)" = "$(printf 'mnt/deep/down/two/file\nmnt/one/file')" ] 2> /dev/null ||
	fail "$(find mnt 2>&1)"
larder status > status || true
grep -q 'deep/down/two' status || fail "$(cat status)"
larder pin "$T/mnt/deep/down/two" > /dev/null

# changed, removed
sed -i 's/^name = two$/name = two\ninsecure = yes/' conf/datasets.d/deep.conf
reload '\[deep/down/two\] was changed'
rm conf/datasets.d/deep.conf
reload '\[deep/down/two\] was removed'
[ "$(cat mnt/deep/down/two/file)" = second ]

# broken, inside the mount, inside another dataset
echo 'nonsense' > conf/datasets.d/bad.conf
reload 'the configuration stays as it was: .*bad.conf'
printf '[x]\nmirror = %s/mnt/one\n' "$T" > conf/datasets.d/bad.conf
reload 'the configuration stays as it was: .*mnt/one'
printf '[one/more]\nmirror = mirror2\nname = two\n' > conf/datasets.d/bad.conf
reload "'one/more' lies inside dataset 'one'"
[ "$(cat mnt/one/file mnt/deep/down/two/file | tr -d '\n')" = firstsecond ]
[ ! -e mnt/x ]

# while others look
for i in $(seq 40); do
	printf '[many/s%s]\nmirror = mirror2\nname = two\n' "$i"
done > conf/datasets.d/bad.conf
for i in 1 2 3; do
	(while [ ! -e stop ]; do ls -l mnt mnt/many > /dev/null 2>&1 || true; df mnt > /dev/null; done) &
	lookers[i]=$!
done
for i in $(seq 41 60); do
	printf '[many/s%s]\nmirror = mirror2\nname = two\n' "$i" >> conf/datasets.d/bad.conf
	kill -HUP "$daemon"
done
wait_for 30 test -e mnt/many/s60/file
touch stop
wait "${lookers[@]}"
[ "$(ls mnt/many | wc -l)" = 60 ]

exec 5<&-
larder umount mnt
wait "$daemon"
# one dataset has no configuration to read again
larder mount -f -o "cache=$T/cache,key=$T/test.key.pub" "$T/mirror1#one" mnt 2> log &
daemon=$!
wait_for 20 test -e mnt/file
reload 'no configuration to read again'
larder umount mnt
wait "$daemon"
