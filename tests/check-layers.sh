#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# src/LAYERS is the whole dependency order: a directory includes itself and
# what its line lists. Of another directory only the door may be included,
# cache/cache.h; base and format are toolboxes without doors. A library's
# headers are known by the names in LAYERS: fuse.h belongs to the owner of
# <fuse_lowlevel.h>, everything in openssl/ to that of <openssl/evp.h>.
. "${top_srcdir:-.}/tests/lib.sh"

# check LAYERS-FILE SRC-DIRECTORY: prints every include that is refused.
check() {
	(cd "$2" && grep -rnE '^[ \t]*#[ \t]*include' --include='*.[ch]' .) |
	awk -v layers="$1" '
	function stem(header) {
		if (header ~ /\//)
			sub(/\/.*/, "/", header)
		else
			sub(/(_[a-z]+)?\.h$/, "", header)
		return header
	}
	function refuse(why) {
		printf "%s:%s: %s: %s\n", where[1] "/" where[2], line,
			included, why
	}
	BEGIN {
		while ((getline text < layers) > 0) {
			n = split(text, words, /[ \t]+/)
			if (sub(/:$/, "", words[1]) != 1)
				continue
			known[words[1]] = 1
			allowed[words[1], words[1]] = 1
			for (i = 2; i <= n; i++) {
				allowed[words[1], words[i]] = 1
				if (words[i] ~ /^</)
					owned[stem(substr(words[i], 2,
						length(words[i]) - 2))] = 1
			}
		}
	}
	{
		split($0, at, ":")
		line = at[2]
		n = split(substr(at[1], 3), where, "/")
		included = $0
		sub(/^[^#]*#[ \t]*include[ \t]*/, "", included)
		sub(/[ \t]*(\/\*.*)?$/, "", included)
		directory = where[1]
		if (n == 1) { # main.c
			directory = "cli"
			if (included ~ /^"/ && included !~ /^"(base|cli)\//)
				refuse("main.c sees cli and base only")
		}
		if (!(directory in known)) {
			refuse("src/LAYERS has no line for " directory)
			next
		}
		name = substr(included, 2, length(included) - 2)
		if (included ~ /^</) {
			s = stem(name)
			if ((s in owned) && !((directory, included) in allowed))
				refuse("a library of another directory")
			next
		}
		if (split(name, part, "/") != 2)
			refuse("not written as \"directory/header.h\"")
		else if (!((directory, part[1]) in allowed))
			refuse("not in the line of " directory)
		else if (part[1] != directory && part[1] != "base" &&
			 part[1] != "format" && part[2] != part[1] ".h")
			refuse("not the door of " part[1])
	}'
}

# The check itself: each of these must be refused.
mkdir -p toy/cache toy/mount toy/cli toy/other
printf '%s\n' 'base: <ini.h>' 'cache: base <lmdb.h> <openssl/evp.h>' \
	'mount: base cache' 'cli: base mount' > LAYERS
printf '%s\n' '#include <stdio.h>' '#include <inttypes.h>' \
	'#include <lmdb.h>' '#include "base/err.h"' '#include "cache/index.h"' \
	> toy/cache/index.c
printf '%s\n' '#include "cache/cache.h"' '#include "mount/ops.h"' \
	> toy/mount/ops.c
printf '%s\n' '#include "cli/cli.h"' > toy/main.c
said=$(check "$T/LAYERS" toy)
[ -z "$said" ] || fail "refused what is right: $said"
refused=0
while read -r file line; do
	printf '%s\n' "$line" > "toy/$file"
	[ "$(check "$T/LAYERS" toy)" ] || fail "let pass: $file: $line"
	rm "toy/$file"
	refused=$((refused + 1))
done <<-'CASES'
	cache/up.c #include "mount/mount.h"
	mount/side.c #include "cache/index.h"
	mount/lib.c #include <lmdb.h>
	mount/lib.h   #  include <openssl/sha.h> /* one of the family */
	cache/near.c #include "index.h"
	other/x.c #include <stdio.h>
	main2.c #include "cache/cache.h"
CASES
[ "$refused" -ge 6 ] || fail "tried only $refused"

said=$(check "$top_srcdir/src/LAYERS" "$top_srcdir/src")
[ -z "$said" ] || fail "$(printf 'refused by src/LAYERS:\n%s' "$said")"
