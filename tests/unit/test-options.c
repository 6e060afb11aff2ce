/* SPDX-License-Identifier: Apache-2.0 */
#undef NDEBUG
#include <config.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/options.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct settings {
	bool help;
	bool insecure;
	uint64_t threads;
	uint64_t size;
	uint64_t timeout_ms;
	char *cache;
	int color;
	struct option_list keys;
	struct option_space min_free;
};

static const char *const colors[] = { "auto", "always", "never", NULL };

#define FIELD(field) .offset = offsetof(struct settings, field)

static const struct option_def defs[] = {
	{ .type = OPTION_HEADING, .help = "Options:" },
	{ .name = "help", .letter = 'h', .type = OPTION_BOOL, FIELD(help),
	  .places = OPTION_ARGV, .ends_parsing = true,
	  .help = "print this text" },
	{ .name = "options", .letter = 'o', .type = OPTION_WORDS,
	  .places = OPTION_ARGV, .value = "LIST",
	  .help = "options as mount(8) gives them" },
	{ .name = "insecure", .letter = 'i', .type = OPTION_BOOL,
	  FIELD(insecure), .help = "accept mirrors without a signature" },
	{ .name = "threads", .letter = 't', .type = OPTION_COUNT,
	  FIELD(threads), .value = "N", .min = 1, .max = 64,
	  .default_text = "8", .help = "work with N threads" },
	{ .name = "size", .type = OPTION_SIZE, FIELD(size), .value = "SIZE",
	  .default_text = "10G",
	  .help = "keep the cache under SIZE, a text that is long enough to "
		  "need a second line here" },
	{ .name = "timeout", .type = OPTION_DURATION, FIELD(timeout_ms),
	  .value = "TIME", .default_text = "30s", .help = "give up after TIME" },
	{ .name = "cache", .letter = 'c', .type = OPTION_STRING, FIELD(cache),
	  .value = "DIR", .help = "keep what was read in DIR" },
	{ .name = "color", .type = OPTION_CHOICE, FIELD(color),
	  .choices = colors, .value = "WHEN", .default_text = "auto",
	  .help = "use colours" },
	{ .name = "key", .type = OPTION_LIST, FIELD(keys), .value = "FILE",
	  .help = "trust this key" },
	{ .name = "min-free", .type = OPTION_SPACE, FIELD(min_free),
	  .value = "SIZE", .default_text = "5%", .help = "leave free" },
	{ 0 },
};

struct fixture {
	struct options options;
	struct settings settings;
	struct err err;
};

static int start(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	*state = f;
	options_init(&f->options);
	return options_add(&f->options, defs, &f->settings, &f->err);
}

static int finish(void **state)
{
	struct fixture *f = *state;

	options_release(&f->options);
	assert_null(f->settings.cache);
	assert_null(f->settings.keys.items);
	free(f);
	return 0;
}

/* Words separated by blanks. */
static int parse(struct fixture *f, const char *line)
{
	/* Operands point into it. */
	static char copy[1024];
	char *argv[64] = { "larder" }, *save = NULL;
	int argc = 1;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *word = strtok_r(copy, " ", &save); word && argc < 64;
	     word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	f->err = (struct err){ 0 };
	return options_parse(&f->options, argc, argv, &f->err);
}

static int config(struct fixture *f, const char *text,
		  config_section_fn *section, void *context)
{
	f->err = (struct err){ 0 };
	return config_parse(text, strlen(text), "larder.conf", &f->options,
			    section, context, &f->err);
}

static void defaults_are_set(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(f->settings.threads, 8);
	assert_int_equal(f->settings.size, 10ULL << 30);
	assert_int_equal(f->settings.timeout_ms, 30000);
	assert_int_equal(f->settings.min_free.percent, 5);
	assert_null(f->settings.cache);
	assert_int_equal(f->settings.keys.count, 0);
	assert_false(options_is_set(&f->options, "threads"));
}

static void the_command_line_is_parsed(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(parse(f, "SRC -it 3 -o ro,key=k1 --size=1T DIR "
				  "--cache /c --color never --key k2 --key=k3 "
				  "--min-free=2G -- -x"), 0);
	assert_true(f->settings.insecure);
	assert_int_equal(f->settings.threads, 3);
	assert_int_equal(f->settings.size, 1ULL << 40);
	assert_string_equal(f->settings.cache, "/c");
	assert_int_equal(f->settings.color, 2);
	assert_int_equal(f->settings.keys.count, 2);
	assert_string_equal(f->settings.keys.items[0], "k2");
	assert_string_equal(f->settings.keys.items[1], "k3");
	assert_null(f->settings.keys.items[2]);
	assert_int_equal(f->settings.min_free.percent, 0);
	assert_int_equal(f->settings.min_free.bytes, 2ULL << 30);
	assert_int_equal(f->options.operands.count, 3);
	assert_string_equal(f->options.operands.items[0], "SRC");
	assert_string_equal(f->options.operands.items[1], "DIR");
	assert_string_equal(f->options.operands.items[2], "-x");
	assert_true(options_is_set(&f->options, "threads"));
	assert_int_equal(parse(f, "-c/d -t5 - --insecure=no"), 0);
	assert_string_equal(f->settings.cache, "/d");
	assert_int_equal(f->settings.threads, 5);
	assert_false(f->settings.insecure);
	assert_string_equal(f->options.operands.items[3], "-");
}

static void help_ends_parsing(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(parse(f, "--help --nonsense"), 0);
	assert_true(f->settings.help);
	assert_int_equal(parse(f, "-hZ"), 0);
}

static void faults_are_named(void **state)
{
	static const struct {
		const char *line, *text;
	} cases[] = {
		{ "--cahce=/c",
		  "command line: unknown option '--cahce', did you mean "
		  "'--cache'?" },
		{ "--xyzzy", "command line: unknown option '--xyzzy'" },
		{ "-Z", "unknown option '-Z'" },
		{ "-iZ", "unknown option '-Z'" },
		{ "--cache", "--cache: needs a value (DIR)" },
		{ "-c", "-c: needs a value (DIR)" },
		{ "--size=10X", "--size: '10X' is not a size such as 10G" },
		{ "--threads=0", "--threads: '0' is out of range (1 to 64)" },
		{ "--threads=65", "--threads: '65' is out of range (1 to 64)" },
		{ "-t -1", "-t: '-1' is not a number" },
		{ "--timeout=soon",
		  "--timeout: 'soon' is not a time such as 30s" },
		{ "--insecure=maybe", "--insecure: 'maybe' is not yes or no" },
		{ "--color=nver",
		  "--color: 'nver' is none of: auto, always, never" },
		{ "--min-free=101%", "--min-free: '101%' is out of range" },
		{ "--min-free=%",
		  "--min-free: '%' is not a size such as 10G or a share such "
		  "as 5%" },
		{ "-o cahce=/c",
		  "-o: unknown option 'cahce', did you mean 'cache'?" },
		{ "-o size=1X", "-o: size: '1X' is not a size such as 10G" },
		{ "-o size", "-o: size: needs a value (SIZE)" },
		{ "-o help", "-o: unknown option 'help'" },
		{ "-o options=ro", "-o: unknown option 'options'" },
		{ "-o key=\"a,b", "-o: a quote is not closed in 'key=\"a,b'" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		if (parse(*state, cases[i].line) >= 0)
			fail_msg("'%s' was taken", cases[i].line);
		assert_string_equal(((struct fixture *)*state)->err.text,
				    cases[i].text);
	}
}

static void the_nearer_place_wins(void **state)
{
	struct fixture *f = *state;

	/* In whatever order they are read. */
	assert_int_equal(parse(f, "--threads=1 -o threads=2,size=2G,key=o"),
			 0);
	assert_int_equal(config(f, "threads = 3\nsize = 3G\ntimeout = 3s\n"
				   "key = f1\n", NULL, NULL), 0);
	assert_int_equal(f->settings.threads, 1);
	assert_int_equal(f->settings.size, 2ULL << 30);
	assert_int_equal(f->settings.timeout_ms, 3000);
	assert_int_equal(f->settings.keys.count, 1);
	assert_string_equal(f->settings.keys.items[0], "o");
	assert_int_equal(parse(f, "-o timeout=2s,threads=9 --size=1G"), 0);
	assert_int_equal(f->settings.threads, 1);
	assert_int_equal(f->settings.size, 1ULL << 30);
	assert_int_equal(f->settings.timeout_ms, 2000);
	/* Nonsense is refused although it would not count. */
	assert_int_equal(config(f, "size = lots\n", NULL, NULL), -EINVAL);
	assert_int_equal(config(f, "cache = a\nkey = k\n", NULL, NULL), 0);
}

static void lists_are_split_by_both_escapes(void **state)
{
	struct fixture *f = *state;
	char *argv[] = { "larder", "-o",
			 "ro,key=\"a,b\",,key=c\\,d,nofail,cache=/m#x y," };

	assert_int_equal(options_parse(&f->options, 3, argv, &f->err), 0);
	assert_int_equal(f->settings.keys.count, 2);
	assert_string_equal(f->settings.keys.items[0], "a,b");
	assert_string_equal(f->settings.keys.items[1], "c,d");
	assert_string_equal(f->settings.cache, "/m#x y");
}

static void generic_mount_words_are_ignored(void **state)
{
	static const char *const ignored[] = {
		"rw", "ro", "dev", "nodev", "suid", "nosuid", "exec",
		"_netdev", "nofail", "user", "users", "owner", "group",
		"auto", "noauto", "defaults", "atime", "noatime", "relatime",
		"strictatime", "lazytime", "nodiratime", "helper=larder",
		"uhelper=udisks2", "x-systemd.mount-timeout=20s",
		"X-mount.mkdir", "comment=cloudconfig", "user=root", "",
	};
	static const char *const taken[] = {
		"noexec", "nosymfollow", "remount", "context=x", "nofial",
		"x", "comment", "uid=0", "allow_other",
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < COUNT(ignored); i++)
		if (!mount_word_is_ignored(ignored[i]))
			fail_msg("'%s'", ignored[i]);
	for (size_t i = 0; i < COUNT(taken); i++)
		if (mount_word_is_ignored(taken[i]))
			fail_msg("'%s'", taken[i]);
	/* As cloud-init's default, and mount(8) with user and a context. */
	assert_int_equal(parse(f, "-o rw,nofail,_netdev,user=me,x-a=b,"), 0);
	assert_int_equal(parse(f, "-o nofial"), -EINVAL);
}

struct dataset {
	char *name;
	struct option_list mirrors;
};

static const struct option_def dataset_defs[] = {
	{ .name = "mirror", .type = OPTION_LIST,
	  .offset = offsetof(struct dataset, mirrors) },
	{ .name = "name", .type = OPTION_STRING,
	  .offset = offsetof(struct dataset, name) },
	{ 0 },
};

struct datasets {
	struct dataset dataset[4];
	struct options options[4];
	char section[4][256];
	size_t count;
};

static struct options *add_dataset(void *context, const char *name,
				   const char *line_text, struct err *err)
{
	struct datasets *all = context;
	struct options *options = &all->options[all->count];

	if (!strcmp(name, "refused")) {
		err_set(err, EINVAL, "no dataset may be called '%s'", name);
		return NULL;
	}
	assert_true(all->count < 4);
	assert_non_null(strstr(line_text, "larder.conf:"));
	snprintf(all->section[all->count], 256, "%s", name);
	options_init(options);
	options_add(options, dataset_defs, &all->dataset[all->count++], err);
	return options;
}

static void sections_are_datasets(void **state)
{
	static const char text[] =
		"\xef\xbb\xbf" "threads = 3\r\n"
		"# a comment\n"
		"[pile]  ; and one here\n"
		"mirror = https://a.example/m    ; tried in order\n"
		"  mirror = /m#2\n"
		"name=the name\n"
		"\n"
		"[hf/models/a-name-that-is-longer-than-fifty-bytes/because-"
		"these-exist]\n"
		"mirror: s3://b/m\n"
		"[larder]\n"
		"\ttimeout = 5m\n"
		"[empty]";
	struct fixture *f = *state;
	struct datasets all = { 0 };

	assert_int_equal(config(f, text, add_dataset, &all), 0);
	assert_int_equal(f->settings.threads, 3);
	assert_int_equal(f->settings.timeout_ms, 300000);
	assert_int_equal(all.count, 3);
	assert_string_equal(all.section[0], "pile");
	assert_int_equal(all.dataset[0].mirrors.count, 2);
	assert_string_equal(all.dataset[0].mirrors.items[0],
			    "https://a.example/m");
	assert_string_equal(all.dataset[0].mirrors.items[1], "/m#2");
	assert_string_equal(all.dataset[0].name, "the name");
	assert_string_equal(all.section[1],
			    "hf/models/a-name-that-is-longer-than-fifty-bytes/"
			    "because-these-exist");
	assert_int_equal(all.dataset[1].mirrors.count, 1);
	assert_string_equal(all.section[2], "empty");
	for (size_t i = 0; i < all.count; i++)
		options_release(&all.options[i]);
}

static void bad_lines_are_named(void **state)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{ "threads = 1\ncahce = /c\n",
		  "larder.conf:2: unknown key 'cahce', did you mean 'cache'?" },
		{ "\n\nsize = x\n",
		  "larder.conf:3: size: 'x' is not a size such as 10G" },
		{ "threads\n", "larder.conf:1: want 'KEY = VALUE'" },
		{ "= 1\n", "larder.conf:1: unknown key ''" },
		{ "\n[pile\nthreads = 1\n",
		  "larder.conf:2: bad section header, want '[NAME]'" },
		{ "[]\n", "larder.conf:1: bad section header, want '[NAME]'" },
		{ "[a] b = c\n",
		  "larder.conf:1: text after a section header" },
		{ "[refused]\n",
		  "larder.conf:1: no dataset may be called 'refused'" },
		{ "[pile]\nthreads = 1\n",
		  "larder.conf:2: 'threads' is for all: it stands before the "
		  "first section, or in [larder]" },
		{ "help = yes\n", "larder.conf:1: unknown key 'help'" },
		{ "options = ro\n", "larder.conf:1: unknown key 'options'" },
		/* Continuation lines are not values of the key above. */
		{ "cache = /c\n  /d\n",
		  "larder.conf:2: want 'KEY = VALUE'" },
	};
	struct fixture *f = *state;
	struct datasets all = { 0 };
	char long_line[400];

	for (size_t i = 0; i < COUNT(cases); i++) {
		if (config(f, cases[i].text, add_dataset, &all) != -EINVAL)
			fail_msg("'%s' was taken", cases[i].text);
		assert_string_equal(f->err.text, cases[i].error);
	}
	assert_int_equal(config(f, "[pile]\n", NULL, NULL), -EINVAL);
	assert_int_equal(config_parse("a\0b = c\n", 8, "larder.conf",
				      &f->options, NULL, NULL, &f->err),
			 -EINVAL);
	assert_string_equal(f->err.text,
			    "larder.conf:1: the line has a NUL byte");
	for (size_t len = 190; len < 210; len++) {
		snprintf(long_line, sizeof(long_line), "cache = %0*d\nsize=1",
			 (int)len - 8, 0);
		assert_int_equal(config(f, long_line, NULL, NULL),
				 len <= 198 ? 0 : -EINVAL);
		if (len <= 198)
			assert_int_equal(strlen(f->settings.cache), len - 8);
		else
			assert_string_equal(
				f->err.text, "larder.conf:1: the line is "
					     "longer than 198 bytes");
	}
	for (size_t i = 0; i < all.count; i++)
		options_release(&all.options[i]);
}

static void a_missing_file_is_named(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(config_read("/nonexistent/x.conf", &f->options, NULL,
				     NULL, &f->err), -ENOENT);
	assert_string_equal(f->err.text, "cannot read '/nonexistent/x.conf': "
					 "No such file or directory");
	assert_int_equal(config_read("/dev", &f->options, NULL, NULL, &f->err),
			 -EINVAL);
}

static void help_fits_the_terminal(void **state)
{
	struct fixture *f = *state;
	_cleanup_free_ char *text = NULL;
	size_t len;
	FILE *file = open_memstream(&text, &len);

	assert_false(options_print_help(&f->options, file, false));
	fclose(file);
	for (char *line = text; *line; line = strchr(line, '\n') + 1)
		assert_true(strcspn(line, "\n") <= 80);
	assert_non_null(strstr(text, "Options:\n  -h, --help   "));
	assert_non_null(strstr(text, "      --size=SIZE           keep"));
	assert_non_null(strstr(text, "(default: 10G)\n"));
	assert_non_null(strstr(text, "(auto, always, never) (default: auto)"));
}

static void values_are_printed_with_their_place(void **state)
{
	struct fixture *f = *state;
	_cleanup_free_ char *text = NULL;
	size_t len;
	FILE *file;

	assert_int_equal(parse(f, "-i -o size=2G"), 0);
	assert_int_equal(config(f, "key = k1\nkey = k2\n", NULL, NULL), 0);
	file = open_memstream(&text, &len);
	options_print_values(&f->options, file);
	fclose(file);
	assert_string_equal(text,
			    "insecure = yes ; command line\n"
			    "threads = 8 ; default\n"
			    "size = 2G ; -o\n"
			    "timeout = 30s ; default\n"
			    "; cache is not set\n"
			    "color = auto ; default\n"
			    "key = k1 ; larder.conf:1\n"
			    "key = k2 ; larder.conf:2\n"
			    "min-free = 5% ; default\n");
	/* And it is a configuration file again. */
	assert_int_equal(config(f, text, NULL, NULL), 0);
}

static void shares_are_of_a_total(void **state)
{
	struct option_space share = { .percent = 5 }, fixed = { .bytes = 7 };

	assert_int_equal(option_space_bytes(&share, 1000), 50);
	assert_int_equal(option_space_bytes(&share, UINT64_MAX),
			 UINT64_MAX / 100 * 5);
	assert_int_equal(option_space_bytes(&fixed, 1000), 7);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(defaults_are_set),
		TEST(the_command_line_is_parsed),
		TEST(help_ends_parsing),
		TEST(faults_are_named),
		TEST(the_nearer_place_wins),
		TEST(lists_are_split_by_both_escapes),
		TEST(generic_mount_words_are_ignored),
		TEST(sections_are_datasets),
		TEST(bad_lines_are_named),
		TEST(a_missing_file_is_named),
		TEST(help_fits_the_terminal),
		TEST(values_are_printed_with_their_place),
		TEST(shares_are_of_a_total),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
