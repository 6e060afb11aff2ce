/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder(1): the table of commands. Called as mount.larder it is mount(8)'s
 * helper; a first word that is no command, with a directory after it, is how
 * mount(8) and mount.fuse3 call a filesystem: a mount.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"

extern char **environ;

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *args, *help;
};

static const struct command commands[] = {
	{"mount", cmd_mount, "[SOURCE] MOUNTPOINT",
	 "mount a dataset, or every configured one"},
	{"umount", cmd_umount, "MOUNTPOINT...", "unmount it"},
	{"status", cmd_status, "", "what is mounted, and whether it answers"},
	{"ls", cmd_ls, "[SOURCE[:PATH]|DIR]", "list files without mounting"},
	{"cat", cmd_cat, "SOURCE:PATH...", "print files without mounting"},
	{"du", cmd_du, "SOURCE[:PATH]|DIR", "sizes of directories, at once"},
	{"prefetch", cmd_prefetch, "SOURCE|DIR [GLOB...]",
	 "fetch files into the cache ahead of their use"},
	{"pin", cmd_pin, "SOURCE|DIR [GLOB...]", "keep files in the cache"},
	{"unpin", cmd_unpin, "SOURCE|DIR [GLOB...]", "no longer"},
	{"evict", cmd_evict, "SOURCE|DIR [GLOB...]",
	 "remove files' data from the cache"},
	{"verify", cmd_verify, "[SOURCE|DIR]",
	 "check what the cache holds, and repair it"},
	{"refresh", cmd_refresh, "SOURCE|DIR...",
	 "look for a new snapshot now"},
	{"publish", cmd_publish, "TREE MIRROR",
	 "make a directory a new snapshot on a mirror"},
	{"keygen", cmd_keygen, "FILE", "make a key to sign with"},
	{"log", cmd_log, "MIRROR [NAME]", "the snapshots of a mirror"},
	{"tag", cmd_tag, "MIRROR NAME TAG", "name a snapshot for good"},
	{"rollback", cmd_rollback, "MIRROR NAME SERIAL",
	 "make an old snapshot the current one"},
	{"check", cmd_check, "MIRROR",
	 "every byte of a mirror against its digests"},
	{"gc", cmd_gc, "MIRROR", "remove what no kept snapshot needs"},
	{0},
};

static void print_help(FILE *file)
{
	fputs("usage: larder COMMAND [OPTION...] [ARGUMENT...]\n"
	      "Mount datasets and models; nothing is downloaded before it is read.\n\n",
	      file);
	for (const struct command *command = commands; command->name; command++)
		fprintf(file, "  %-10s%-20s  %s\n", command->name,
			command->args, command->help);
	fputs("\n  -h, --help                      print this text\n"
	      "  -V, --version                   print the version\n"
	      "\nSOURCE is MIRROR#NAME[@TAG], hf://ORG/NAME of the Hugging Face Hub, or the name\n"
	      "of a dataset in /etc/larder/larder.conf; MIRROR a path, http(s):// or s3://;\n"
	      "publish and the commands after it take a path, file:// or s3://.\n"
	      "larder COMMAND --help says more; larder help COMMAND opens its manual.\n",
	      file);
}

static const struct command *find(const char *name)
{
	for (const struct command *command = commands; command->name;
	     command++) {
		if (strcmp(command->name, name) == 0)
			return command;
	}
	return NULL;
}

/* SOURCE DIR ...: what mount.fuse3 passes on. */
static bool looks_like_mount(int argc, char **argv)
{
	struct stat st;

	if (argc < 3 || argv[1][0] == '-' || argv[2][0] == '-')
		return false;
	/* a dead mount gives ENOTCONN: still a mount point */
	return stat(argv[2], &st) == 0 ? S_ISDIR(st.st_mode) :
					 errno == ENOTCONN;
}

static const char *nearest_command(const char *name)
{
	const char *names[sizeof(commands) / sizeof(commands[0])] = {0};

	for (size_t i = 0; commands[i].name; i++)
		names[i] = commands[i].name;
	return nearest_word(name, names);
}

static int unknown(const char *name)
{
	const char *nearest = nearest_command(name);

	if (nearest)
		fprintf(stderr,
			"larder: '%s' is no command (did you mean '%s'?)\n",
			name, nearest);
	else
		fprintf(stderr,
			"larder: '%s' is no command (larder help lists them)\n",
			name);
	return CLI_USAGE;
}

/* man in a child: when it has no such page, there is something to add. */
static int open_manual(const char *page, const char *topic)
{
	char *argv[] = {"man", (char *)page, NULL};
	bool is_command = find(topic) != NULL;
	int status = 0;
	pid_t pid;

	int r = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
	if (r)
		fprintf(stderr, "larder help: cannot run man: %s\n",
			strerror(r));
	while (!r && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!r && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return CLI_DONE;
	fprintf(stderr,
		"larder help: no manual was shown; try: larder %s%s--help\n",
		is_command ? topic : "", is_command ? " " : "");
	return CLI_FAILED;
}

static bool wants_help(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "-h");
}

static int help(const char *topic)
{
	char page[64];

	if (!topic || !strcmp(topic, "help")) {
		print_help(stdout);
		return CLI_DONE;
	}
	bool is_page = !strcmp(topic, "larder") || !strcmp(topic, "format") ||
		       !strcmp(topic, "larder.conf") ||
		       !strcmp(topic, "mount.larder");
	if (!is_page && !find(topic))
		return unknown(topic);
	/* these two have no page of their own: larder(1) has them */
	if (!strcmp(topic, "status") || !strcmp(topic, "du"))
		snprintf(page, sizeof(page), "larder");
	else if (strchr(topic, '.') || !strcmp(topic, "larder"))
		snprintf(page, sizeof(page), "%s", topic);
	else
		snprintf(page, sizeof(page), "larder-%s", topic);
	return open_manual(page, topic);
}

/* It may also have been a mistyped command with a directory after it. */
static int mount_anyway(int argc, char **argv)
{
	int code = cmd_mount_helper(argc, argv);

	const char *nearest = nearest_command(argv[1]);

	if (code && !strpbrk(argv[1], "#/:") && strcmp(argv[1], "larder") &&
	    nearest)
		fprintf(stderr,
			"larder: that was taken for a mount; did you mean 'larder %s'?\n",
			nearest);
	return code;
}

/*
 * With one of them closed, the next file opened would be standard output, say.
 * What stands in refuses the use that was closed, as a closed one does.
 */
static void fill_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
			continue;
		/* the lowest free one: fd */
		if (open("/dev/null",
			 (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) |
				 O_CLOEXEC) == fd)
			(void)fcntl(fd, F_SETFD, 0);
	}
}

int main(int argc, char **argv)
{
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
	const char *self = slash ? slash + 1 : argc > 0 ? argv[0] : "larder";

	fill_standard_descriptors();
	/* past ulimit -f: the write fails, the process lives */
	signal(SIGXFSZ, SIG_IGN);
	if (strcmp(self, "mount.larder") == 0 ||
	    strcmp(self, "mount.fuse.larder") == 0)
		return cmd_mount_helper(argc, argv);
	if (argc < 2) {
		print_help(stderr);
		return CLI_USAGE;
	}
	const char *word = argv[1];
	bool is_help = !strcmp(word, "help");
	if (is_help && argc > 2 && !wants_help(argv[2]))
		return help(argv[2]);
	if (is_help || wants_help(word))
		return help(NULL);
	if (!strcmp(word, "--version") || !strcmp(word, "-V")) {
		printf("larder %s\n", PACKAGE_VERSION);
		return CLI_DONE;
	}
	const struct command *command = find(word);
	if (command)
		return command->run(argc - 1, argv + 1);
	if (looks_like_mount(argc, argv))
		return mount_anyway(argc, argv);
	return unknown(word);
}
