# shellcheck shell=bash disable=SC2016,SC2034
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by tests that need mount(8) to find mount.larder, or a configuration
# in /etc: they run again in a mount namespace of their own, where
# $T/etc lies over /etc and the built program is installed in /usr/bin and /usr/sbin.
# Call it after lib.sh: in_namespace. Or only with a /dev/fuse of their own:
# everybody_may_mount.

in_namespace() {
	if [ -n "${IN_NAMESPACE-}" ]; then
		return
	fi
	requires unshare
	unshare -m true 2> /dev/null || skip "no mount namespace"
	mkdir -p "$T/over/etc/larder" "$T/over/bin" "$T/over/sbin"
	cp "$top_builddir/larder" "$T/over/bin/larder"
	cp "$top_builddir/larder" "$T/over/sbin/mount.larder"
	local status=0
	# the inner run has a $T of its own, below this one
	IN_NAMESPACE=$T TMPDIR=$T unshare -m bash -c '
		set -e
		mount --make-rprivate /
		for dir in etc:etc bin:usr/bin sbin:usr/sbin; do
			mount -t overlay -o "lowerdir=$IN_NAMESPACE/over/${dir%:*}:/${dir#*:}" \
				overlay "/${dir#*:}" || exit 77
		done
		exec bash "$1"' bash "$top_srcdir/tests/$test_name.sh" || status=$?
	exit $status
}
# Where files of /etc/larder can be written from inside.
etc_larder=${IN_NAMESPACE-}/over/etc/larder

# everybody_may_mount: /dev/fuse is for everybody on real systems, not on every
# test machine.
everybody_may_mount() {
	local status=0
	if [ -n "${IN_NAMESPACE-}" ] ||
		setpriv --reuid 65534 --regid 65534 --clear-groups test -w /dev/fuse; then
		return
	fi
	mknod -m 666 "$T/fuse" c 10 229 2> /dev/null ||
		skip "no device for everybody"
	IN_NAMESPACE=1 unshare -m bash -c 'mount --make-rprivate / &&
		mount --bind "$1" /dev/fuse && exec bash "$2"' bash "$T/fuse" \
		"$top_srcdir/tests/$test_name.sh" || status=$?
	exit $status
}
