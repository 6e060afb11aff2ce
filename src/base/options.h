/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_BASE_OPTIONS_H
#define LARDER_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/vec.h"

struct err;

/*
 * One table of options drives the command line, `-o a=b,c`, the
 * configuration file, --help and --print-config:
 *
 *	struct settings { char *cache; uint64_t size; bool help; };
 *	static const struct option_def settings_options[] = {
 *		{ .name = "cache", .type = OPTION_STRING,
 *		  .offset = offsetof(struct settings, cache),
 *		  .value = "DIR", .default_text = "/var/cache/larder",
 *		  .help = "keep what was read here" },
 *		{ .name = "help", .letter = 'h', .type = OPTION_BOOL,
 *		  .places = OPTION_ARGV, .ends_parsing = true,
 *		  .offset = offsetof(struct settings, help),
 *		  .help = "print this text" },
 *		{ 0 },
 *	};
 *
 *	options_init(&options);
 *	r = options_add(&options, settings_options, &settings, err);
 *	r = options_parse(&options, argc, argv, err);
 *	r = config_read(path, &options, NULL, NULL, err);
 *
 * The command line wins over -o, -o over the file, the file over the
 * default, in whatever order they are read; in one place the later value
 * wins and values of a list add up.
 */
enum option_type {
	OPTION_BOOL,	 /* bool; without a value: true */
	OPTION_COUNT,	 /* uint64_t */
	OPTION_SIZE,	 /* uint64_t, bytes: parse_size() */
	OPTION_DURATION, /* uint64_t, milliseconds: parse_duration() */
	OPTION_STRING,	 /* char *, owned by the options */
	OPTION_CHOICE,	 /* int, the index in choices */
	OPTION_LIST,	 /* struct option_list */
	OPTION_SPACE,	 /* struct option_space: a size or "10%" */
	OPTION_WORDS,	 /* no target: its value is a list, as of -o */
	OPTION_HEADING,	 /* no option: `help` is a line of its own in --help */
};

enum option_place {
	OPTION_DEFAULT = 0,
	OPTION_FILE = 1 << 0,
	OPTION_LISTED = 1 << 1, /* in -o */
	OPTION_ARGV = 1 << 2,
};

struct option_list {
	char **items; /* owned by the options */
	size_t count;
};

/* percent is in use where it is not 0. */
struct option_space {
	uint64_t bytes;
	unsigned int percent;
};

/* A table ends with an entry without name and help. */
struct option_def {
	const char *name;
	const char *value; /* what --help calls it: "SIZE" */
	const char *help;
	const char *default_text; /* parsed like a value; NULL: zero */
	const char *const *choices; /* NULL-terminated */
	size_t offset;
	uint64_t min, max; /* of numbers; max 0: none; min of a space in bytes */
	enum option_type type;
	enum option_place places; /* where it may stand; 0: everywhere */
	char letter;
	bool ends_parsing; /* --help: what follows is not looked at */
	bool is_hidden;	   /* not in --help */
	bool is_rare;	   /* not in a short one */
};

struct option_source {
	char *text;
	char *where; /* NULL: the default */
};

/* One option of one table, and what it was set to. */
struct option_slot {
	const struct option_def *def;
	void *target;
	enum option_place place; /* of the value in force */
	VEC(struct option_source) sources;
};

struct options {
	VEC(struct option_slot) slots;
	VEC(const char *) operands; /* point into argv */
	bool skips_unknown_words; /* in lists: mount -s */
};

void options_init(struct options *options);
/* Frees the strings and lists in the targets as well. */
void options_release(struct options *options);

/* Add a table and set target to its defaults. The target's strings and
 * lists must be zero before. -EINVAL if a default does not parse. */
int options_add(struct options *options, const struct option_def *defs,
		void *target, struct err *err);

/* Set one option by name; value NULL means none was given. where is what
 * --print-config and errors say. Unknown names are -EINVAL and named with
 * the nearest known one. */
int options_set(struct options *options, enum option_place place,
		const char *where, const char *name, const char *value,
		struct err *err);

/* argv[0] is skipped. Options and operands may be mixed, "--" ends the
 * options. Names are not abbreviated: a script must not break when an
 * option is added. */
int options_parse(struct options *options, int argc, char *const *argv,
		  struct err *err);

/* A list as of -o: "a=b,c". Words that mount(8) passes on for every type of
 * filesystem are ignored unless a table has them. */
int options_parse_list(struct options *options, const char *list,
		       struct err *err);

/* "nofail", "_netdev", "x-systemd.automount", ...: not for us. Words that
 * restrict (noexec, nosymfollow) are not among them. */
bool mount_word_is_ignored(const char *word);

/* Whether there is one that may be set there. */
bool options_has(const struct options *options, enum option_place place,
		 const char *name);

/* Whether something other than the default set it. */
bool options_is_set(const struct options *options, const char *name);

/* The option lines of --help, at most 80 columns. True: some are rare and left
 * out of a short one. */
bool options_print_help(const struct options *options, FILE *file,
			bool is_short);

/* --print-config: "name = value ; where it is from", readable again as a
 * configuration file. */
void options_print_values(const struct options *options, FILE *file);

/* Bytes of a size or a percentage of total. */
uint64_t option_space_bytes(const struct option_space *space, uint64_t total);

/*
 * A configuration file. Keys before the first section and in [larder] are
 * options of global. For every other header section() is called and returns
 * the options the following keys belong to, or NULL with err set; NULL as
 * section(): no such sections are allowed. line_text is "FILE:LINE". A line
 * of 199 bytes or more, a NUL, a header without its bracket, a line without
 * "=" and an unknown key are errors that name the line. Indentation means
 * nothing. A missing file is -ENOENT with err set.
 */
typedef struct options *(config_section_fn)(void *context, const char *name,
					    const char *line_text,
					    struct err *err);

int config_read(const char *path, struct options *global,
		config_section_fn *section, void *context, struct err *err);
int config_parse(const void *data, size_t len, const char *path,
		 struct options *global, config_section_fn *section,
		 void *context, struct err *err);

#endif
