#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
#
# What a compiler does not refuse: functions that overrun or lie, files
# without a licence line, headers that need another one first, descriptors
# that leak into children, tests that nobody runs. Long functions and files
# are listed, not refused: each is somebody's decision.
. "${top_srcdir:-.}/tests/lib.sh"
shopt -s lastpipe # a loop's complaints count
cc=${CC:-cc}
cd "$top_srcdir"

bad=0
complain() {
	echo "$test_name: $1" >&2
	sed 's/^/    /' >&2
	bad=1
}
# complain about what grep finds on stdin
refuse() {
	local found
	found=$(grep -E -- "$2" || true)
	[ -z "$found" ] || complain "$1" <<< "$found"
}

# Sources without comments and literals, as FILE:LINE:TEXT.
bare() {
	awk '
	FNR == 1 { in_comment = 0 }
	{
		text = ""
		rest = $0
		while (rest != "") {
			if (in_comment) {
				if (!match(rest, /\*\//)) { rest = ""; break }
				rest = substr(rest, RSTART + 2)
				in_comment = 0
			} else if (match(rest, /\/\*|"([^"\\]|\\.)*"|\047([^\047\\]|\\.)+\047/)) {
				text = text substr(rest, 1, RSTART - 1)
				if (substr(rest, RSTART, 2) == "/*")
					in_comment = 1
				else
					text = text "\"\""
				rest = substr(rest, RSTART + (in_comment ? 2 : RLENGTH))
			} else {
				text = text rest
				rest = ""
			}
		}
		print FILENAME ":" FNR ":" text
	}' "$@"
}

mapfile -t sources < <(find src tests -name '*.[ch]' | LC_ALL=C sort)
bare "${sources[@]}" > "$T/bare"
grep '^src/' "$T/bare" > "$T/bare-src"

refuse 'refused functions' \
	'\<(strcpy|strcat|strncat|strncpy|stpcpy|v?sprintf|strtok|gmtime|localtime|asctime|ctime|ato[il]l?|atof|gets|tmpnam|mktemp|alloca)[ \t]*\(' \
	< "$T/bare"
refuse 'numbers are parsed by base/text.h' '\<(strto(u?ll?|[du]|u?max))[ \t]*\(' \
	< "$T/bare-src"
refuse 'comments are /* */' '//' < "$T/bare"
grep -vE '^src/(cli/|main\.c)' "$T/bare-src" |
	refuse 'exit() belongs to cli/ (_exit in a child does not)' '[^_a-z]exit[ \t]*\('
refuse 'a struct gets no typedef' 'typedef[ \t]+(struct|union|enum)\>[ \ta-z_0-9]*[;{]' < "$T/bare-src"
# A call may go on in the next two lines.
awk '
	{ held[NR] = $0 }
	END {
		for (i = 1; i <= NR; i++) {
			if (held[i] !~ /[^a-z_](open|openat|memfd_create|pipe2|accept4|epoll_create1|eventfd|socket)[ \t]*\(/)
				continue
			call = held[i] held[i + 1] held[i + 2]
			if (call !~ /CLOEXEC/)
				print held[i]
		}
	}' "$T/bare-src" | refuse 'descriptors without CLOEXEC' '.'
refuse 'descriptors without CLOEXEC' \
	'[^a-z_](pipe|accept|creat|dup|epoll_create|inotify_init)[ \t]*\(' < "$T/bare-src"

git_files() { # tracked, or in a tarball what was shipped
	git ls-files 2> /dev/null ||
		find src tests man m4 contrib bench configure.ac Makefile.am -type f
}
git_files | grep -E '\.([ch]|sh|m4|mk|ac|am|[158])$|^contrib/[a-z-]*$|^\.ci/' |
	grep -vE '^(tests/data|tests/fuzz/corpus|build-aux|aclocal\.m4|autom4te)' |
	while read -r file; do
		[ -f "$file" ] || continue
		head -n 5 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' ||
			echo "$file"
	done | refuse 'no SPDX line' '.'

find src -name '*.c' -exec awk '
	/^#[ \t]*include/ && !seen++ && $0 !~ /<config\.h>/ {
		print FILENAME ": " $0
		exit
	}' '{}' ';' | refuse 'the first include is not <config.h>' '.'

# Every file is in a source list, or nobody builds or runs it.
for file in src/*/*.[ch] src/*.c; do
	grep -qF "%D%/${file#src/} " src/local.mk ||
		[ "$file" = src/main.c ] || echo "$file"
done | refuse 'not in src/local.mk' '.'
for file in tests/unit/test-*.c tests/fuzz/fuzz-*.c tests/test-*.sh tests/check-*.sh; do
	[ -e "$file" ] || continue
	grep -qF "%D%/${file#tests/} " <(sed 's/ \\$/.c \\/; p; s/\.c \\$/ \\/' tests/local.mk) || echo "$file"
done | refuse 'not in tests/local.mk' '.'

# Every header compiles alone.
mkdir "$T/headers"
for header in src/*/*.h; do
	name=$(tr / - <<< "${header#src/}")
	printf '#include <config.h>\n#include "%s"\n' "${header#src/}" \
		> "$T/headers/$name.c"
done
fuse_cflags=$(pkg-config --cflags fuse3 2> /dev/null || true)
# shellcheck disable=SC2086 # lists of flags
(cd "$top_builddir" && $cc -I. -I"$top_srcdir/src" $fuse_cflags ${CHECK_CFLAGS:-} \
	-fsyntax-only "$T"/headers/*.c) 2>&1 |
	refuse 'headers that do not compile alone' 'error'

echo "functions over 100 lines:"
awk '
	FNR == 1 { start = 0 }
	/^[a-zA-Z].*\(/ && !/;$/ { name = $0 }
	/^\{/ { start = FNR }
	/^\}/ && start {
		if (FNR - start > 100)
			printf "  %4d  %s: %s\n", FNR - start, FILENAME, name
		start = 0
	}' "${sources[@]}" | sort -rn
echo "files over 800 lines:"
wc -l "${sources[@]}" | awk '$1 > 800 && $2 != "total" {
	printf "  %4d  %s\n", $1, $2 }' | sort -rn
[ $bad = 0 ] || fail "see above"
