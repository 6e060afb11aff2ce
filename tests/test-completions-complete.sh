#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# fish and zsh complete commands, options, datasets and mounts with our files: asked as
# the shells ask, zsh at a terminal of its own.
. "${top_srcdir:-.}/tests/lib.sh"
requires fish zsh
completions=$top_srcdir/contrib/completions

fish_offers() { # WANTED LINE
	fish --no-config -c "source '$completions/larder.fish'; complete -C '$2'" \
		< /dev/null > offered 2> /dev/null
	cut -f 1 offered | grep -qxF -e "$1" || fail "fish, '$2': $(cat offered)"
}
fish_offers prefetch 'larder pre'
fish_offers status 'larder '
fish_offers --noexec 'larder mount --no'
fish_offers --repair 'larder verify --'
fish_offers --cache= 'larder cat --ca'

# LINE is typed, then TAB: what stands there then must hold WANTED.
cat > ask.zsh <<'EOZ'
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1='> '; fpath=('$1' \$fpath); autoload -U compinit"
zpty -w shell "compinit -u -D; bindkey '^I' complete-word; print -r REA''DY"
zpty -r shell out '*READY*'
zpty -w -n shell "$2"$'\t'
for ((i = 0; i < 100; i++)); do
	zpty -r -t shell more && out+=$more
	[[ $out != *$3* ]] || { zpty -d shell; exit 0; }
	sleep 0.1
done
print -r -- "$out"
zpty -d shell
exit 1
EOZ
zsh_offers() { # WANTED LINE
	timeout 60 zsh -f ask.zsh "$completions" "$2" "$1" < /dev/null > offered 2>&1 ||
		fail "zsh, '$2': $(cat -v offered)"
}
zsh_offers 'larder prefetch' 'larder pref'
zsh_offers 'mount --noexec' 'larder mount --noe'
zsh_offers 'verify --repair' 'larder verify --rep'
