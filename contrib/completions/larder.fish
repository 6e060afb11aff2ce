# SPDX-License-Identifier: Apache-2.0
# Commands and options come from the program's own --help.

function __larder_commands
	larder --help 2>/dev/null | string match -rg '^  ([a-z]+)  '
end

function __larder_options
	set -l words (commandline -opc)
	test (count $words) -ge 2; or return
	larder $words[2] --help 2>/dev/null | string match -rg '^  (?:-[a-zA-Z],|   ) (--[a-z][a-z0-9_-]*=?)'
end

complete -c larder -n 'test (count (commandline -opc)) -eq 1' -f -a '(__larder_commands) help'
complete -c larder -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__larder_options)'
complete -c larder -n '__fish_seen_subcommand_from ls cat du mount prefetch pin unpin evict refresh verify' -a '(larder ls 2>/dev/null)'
complete -c larder -n '__fish_seen_subcommand_from umount' -f -a '(findmnt -rno TARGET -t fuse.larder)'
