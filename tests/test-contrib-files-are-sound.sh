#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What contrib/ offers to start from works: the completion knows every command and option, the
# configuration is read, the fstab lines and the unit make sense to their tools.
. "${top_srcdir:-.}/tests/lib.sh"
contrib=$top_srcdir/contrib

# shellcheck source=/dev/null
. "$contrib/completions/larder.bash"
compopt() { :; } # only inside a real completion
complete_words() {
	COMP_WORDS=(larder "$@")
	COMP_CWORD=$#
	_larder
	printf '%s\n' "${COMPREPLY[@]-}"
}
offers() {
	local wanted=$1
	shift
	grep -qx -- "$wanted" <<< "$(complete_words "$@")" ||
		fail "no $wanted for '$*' in $(complete_words "$@")"
}
for command in mount umount status ls cat du prefetch pin unpin evict publish gc help; do
	offers "$command" ''
done
[ "$(complete_words stat)" = status ] || fail "stat: $(complete_words stat)"
offers --foreground mount --foreg
offers cache= mount -o cach
offers insecure,cache= mount -o insecure,cach
[ "$(complete_words help umo)" = umount ]

sed -E 's/^; ([a-z-]+ = |\[)/\1/' "$contrib/larder.conf" > all.conf
for file in "$contrib/larder.conf" all.conf; do
	larder mount --print-config -c "$file" > said || fail "$file is not read"
done
grep -q '^\[pile\]' said || fail "$(cat said)"

if findmnt --help | grep -q -- --verify; then
	findmnt --verify -F "$contrib/fstab.example" > said 2>&1 || true
	grep -q "^0 parse errors" said || fail "fstab: $(cat said)"
fi
if command -v systemd-analyze > /dev/null; then
	sed "s,@bindir@/larder,$(command -v true)," "$contrib/larder.service.in" > larder.service
	systemd-analyze verify ./larder.service > said 2>&1 || true
	! grep -iE "unknown|invalid|fatal|neither" said || fail "the unit"
	! grep -E "^(Private|Protect(System|Home|Kernel|Control|Proc)|(Read|Inaccessible|Bind).*Paths|MountFlags|DynamicUser|Root)" \
		larder.service || fail "the unit would hide its mount"
fi
