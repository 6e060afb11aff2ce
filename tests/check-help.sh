#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# --help and the manual agree: every command of `larder --help` explains
# itself on 80 columns and ends with 0; each of its options is in the page
# larder-COMMAND(1), or in larder(1) where it has none, and no such page has
# an option that the command does not know.
. "${top_srcdir:-.}/tests/lib.sh"
man=$top_srcdir/man

bad=0
complain() {
	echo "$test_name: $*" >&2
	bad=1
}

# Long options of a page: ".It Fl c , Fl -config Ns = Ns Ar FILE".
page_options() {
	sed -nE '/^\.It /{ s/Fl -([a-z][a-z_-]*)/\n--\1\n/g; p }' "$1" |
		sed -n '/^--/p' | sort -u
}

help_options() {
	sed -nE 's/^  (-[a-zA-Z],|   ) (--[a-z][a-z_-]*).*/\2/p' | sort -u
}

larder --help > help || fail "--help exited $?"
commands=$(sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' help)
[ "$(wc -w <<< "$commands")" -ge 10 ] || fail "finds no commands in $(cat help)"
: > all
for command in '' $commands; do
	# shellcheck disable=SC2086 # '' is no argument
	larder $command --help > help 2> said ||
		complain "$command --help exited $?: $(cat said)"
	[ ! -s said ] || complain "$command --help wrote on stderr"
	awk 'length > 80 { exit 1 }' help ||
		complain "$command --help is wider than 80 columns"
	help_options < help > known
	cat known >> all
	page=$man/larder-$command.1
	if [ ! -e "$page" ]; then
		page=$man/larder.1
		[ -z "$command" ] ||
			grep -qE "^\.(It|Ss|Sh|Nm)( [A-Z][a-z])*( larder)? $command( |$)" "$page" ||
			complain "larder(1) has no '$command'"
	fi
	[ -e "$page" ] || fail "there is no larder.1"
	# -o, --help and what every command shares may stand in larder(1).
	{ page_options "$page"; page_options "$man/larder.1"; } | sort -u > written
	for option in $(comm -23 known written); do
		complain "$(basename "$page") lacks '$option' of larder $command"
	done
	[ "$page" != "$man/larder.1" ] || continue
	for option in $(page_options "$page" | comm -23 - known); do
		complain "$(basename "$page") has '$option'," \
			"larder $command --help has not"
	done
done
page_options "$man/larder.1" > written
for option in $(sort -u all | comm -13 - written); do
	complain "larder.1 has '$option', which no command knows"
done
[ $bad = 0 ] || fail "see above"
