#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The manual pages have no fault that mandoc finds, name no page of ours
# that is not there, and all are installed.
. "${top_srcdir:-.}/tests/lib.sh"
requires mandoc
cd "$top_srcdir/man"

bad=0
for page in *.[1-9]; do
	# "missing date" and the like are faults; style is taste, but for
	# trailing blanks and bad spelling of sections there is none.
	mandoc -T lint -W warning "$page" || bad=1
	grep -q "%D%/$page " local.mk ||
		{ echo "$page is not in man/local.mk"; bad=1; }
	while read -r name section; do
		case $name in larder* | mount.larder)
			[ -e "$name.$section" ] ||
				{ echo "$page refers to $name($section)"; bad=1; }
		esac
	done < <(sed -n 's/^\.Xr \([^ ]*\) \([0-9]\).*/\1 \2/p' "$page")
done
[ $bad = 0 ] || fail "see above"
