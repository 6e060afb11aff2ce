# bash completion of larder(1)                             -*- shell-script -*-
# SPDX-License-Identifier: Apache-2.0
# Commands, options and the words after -o come from the program's own --help.

_larder_commands() {
	larder --help 2> /dev/null | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p'
}

_larder_options() {
	larder "$1" --help 2> /dev/null |
		grep -oE '^  (-[a-zA-Z],|   ) --[a-z][a-z0-9_-]*=?' |
		grep -oE -- '--[a-z0-9_-]*=?'
}

# Datasets of the configuration.
_larder_datasets() {
	larder ls 2> /dev/null
}

_larder() {
	local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}
	local previous=${COMP_WORDS[COMP_CWORD - 1]} words prefix=

	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_larder_commands) help" -- "$current")
		return
	fi
	if [ "$previous" = -o ] || [ "$previous" = --options ]; then
		case $current in *,*) prefix=${current%,*}, ;; esac
		words=$(_larder_options "$command" | sed 's/^--//')
		mapfile -t COMPREPLY < <(compgen -P "$prefix" -W "$words" -- "${current##*,}")
		compopt -o nospace
		return
	fi
	case $command:$current in
	help:*) mapfile -t COMPREPLY < <(compgen -W "$(_larder_commands)" -- "$current") ;;
	*:-*)
		mapfile -t COMPREPLY < <(compgen -W "$(_larder_options "$command")" -- "$current")
		case ${COMPREPLY[0]-} in *=) compopt -o nospace ;; esac
		;;
	mount:* | ls:* | cat:* | du:* | prefetch:* | pin:* | unpin:* | evict:* | refresh:* | verify:*)
		mapfile -t COMPREPLY < <(compgen -W "$(_larder_datasets)" -- "$current"
			compgen -f -- "$current")
		compopt -o filenames
		;;
	umount:*)
		mapfile -t COMPREPLY < <(compgen -W "$(findmnt -rno TARGET -t fuse.larder)" \
			-- "$current")
		;;
	*) mapfile -t COMPREPLY < <(compgen -f -- "$current") && compopt -o filenames ;;
	esac
}
complete -F _larder larder
