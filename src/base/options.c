/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option table: names to typed targets. getopt_long() is not used: it
 * keeps state in globals, takes abbreviations and cannot say which name was
 * meant; the loop over argv is shorter than the tables it would need.
 * Every value is kept as text with its place, so that precedence does not
 * depend on the order in which the places are read.
 */
#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/option-value.h"
#include "base/options.h"
#include "base/text.h"

void options_init(struct options *options)
{
	*options = (struct options){ 0 };
}

static void *target_of(const struct option_slot *slot)
{
	return (char *)slot->target + slot->def->offset;
}

static void clear_sources(struct option_slot *slot)
{
	for (size_t i = 0; i < slot->sources.count; i++) {
		free(slot->sources.items[i].text);
		free(slot->sources.items[i].where);
	}
	slot->sources.count = 0;
}

void options_release(struct options *options)
{
	for (size_t i = 0; i < options->slots.count; i++) {
		struct option_slot *slot = &options->slots.items[i];

		if (slot->def->type == OPTION_STRING) {
			free(*(char **)target_of(slot));
			*(char **)target_of(slot) = NULL;
		}
		if (slot->def->type == OPTION_LIST)
			option_list_release(target_of(slot));
		clear_sources(slot);
		vec_release(&slot->sources);
	}
	vec_release(&options->slots);
	vec_release(&options->operands);
}

static int remember(struct option_slot *slot, const char *text,
		    const char *where)
{
	struct option_source *source = vec_push(&slot->sources);

	if (!source)
		return -ENOMEM;
	source->text = strdup(text);
	if (where)
		source->where = strdup(where);
	return source->text && (!where || source->where) ? 0 : -ENOMEM;
}

/* where: for errors; origin: for --print-config, NULL for the default. */
static int set_slot(struct option_slot *slot, enum option_place place,
		    const char *where, const char *origin, const char *text,
		    struct err *err)
{
	const struct option_def *def = slot->def;
	union {
		struct option_list list;
		struct option_space space;
		uint64_t number;
		char *string;
		bool is_true;
		int choice;
	} unused = { 0 };
	int r;

	if (place < slot->place) {
		/* Overruled, but still an error if it is nonsense. */
		r = option_value_set(def, &unused, text);
		if (def->type == OPTION_STRING)
			free(unused.string);
		if (def->type == OPTION_LIST)
			option_list_release(&unused.list);
		return r < 0 ? option_value_error(def, where, text, r, err) : 0;
	}
	if (place > slot->place && def->type == OPTION_LIST)
		option_list_release(target_of(slot));
	r = option_value_set(def, target_of(slot), text);
	if (r == 0) {
		if (place > slot->place || def->type != OPTION_LIST)
			clear_sources(slot);
		slot->place = place;
		r = remember(slot, text, origin);
	}
	return r < 0 ? option_value_error(def, where, text, r, err) : 0;
}

int options_add(struct options *options, const struct option_def *defs,
		void *target, struct err *err)
{
	for (; defs->name || defs->help; defs++) {
		struct option_slot *slot = vec_push(&options->slots);
		int r;

		if (!slot)
			return err_set(err, ENOMEM, "out of memory");
		slot->def = defs;
		slot->target = target;
		assert(defs->name || defs->type == OPTION_HEADING);
		assert(defs->type != OPTION_CHOICE || defs->choices);
		if (!defs->default_text)
			continue;
		r = set_slot(slot, OPTION_DEFAULT, defs->name, NULL,
			     defs->default_text, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static bool is_allowed(const struct option_def *def, enum option_place place)
{
	if (def->type == OPTION_HEADING)
		return false;
	if (def->type == OPTION_WORDS && place != OPTION_ARGV)
		return false;
	return !def->places || (def->places & place);
}

static struct option_slot *find(const struct options *options,
				enum option_place place, const char *name)
{
	for (size_t i = 0; i < options->slots.count; i++) {
		struct option_slot *slot = &options->slots.items[i];

		if (is_allowed(slot->def, place) &&
		    !strcmp(slot->def->name, name))
			return slot;
	}
	return NULL;
}

bool options_has(const struct options *options, enum option_place place,
		 const char *name)
{
	return find(options, place, name);
}

static struct option_slot *find_letter(const struct options *options, char c)
{
	for (size_t i = 0; i < options->slots.count; i++) {
		struct option_slot *slot = &options->slots.items[i];

		if (is_allowed(slot->def, OPTION_ARGV) && c &&
		    slot->def->letter == c)
			return slot;
	}
	return NULL;
}

static int unknown(const struct options *options, enum option_place place,
		   const char *where, const char *name, struct err *err)
{
	const char *dashes = place == OPTION_ARGV ? "--" : "";
	const char *what = place == OPTION_FILE ? "key" : "option";
	VEC(const char *) names = { 0 };
	const char *nearest = NULL, **word;

	for (size_t i = 0; i < options->slots.count; i++) {
		const struct option_def *def = options->slots.items[i].def;

		if (!is_allowed(def, place) || def->is_hidden)
			continue;
		word = vec_push(&names);
		if (word)
			*word = def->name;
	}
	word = vec_push(&names); /* the NULL that ends it */
	if (word)
		nearest = nearest_word(name, names.items);
	vec_release(&names);
	if (!nearest)
		return err_set(err, EINVAL, "%s: unknown %s '%s%s'", where,
			       what, dashes, name);
	return err_set(err, EINVAL,
		       "%s: unknown %s '%s%s', did you mean '%s%s'?", where,
		       what, dashes, name, dashes, nearest);
}

/* where: what errors begin with; origin: what --print-config says. */
static int set_found(struct options *options, struct option_slot *slot,
		     enum option_place place, const char *where,
		     const char *origin, const char *value, struct err *err)
{
	if (slot->def->type == OPTION_WORDS)
		return options_parse_list(options, value ? value : "", err);
	if (!value && slot->def->type != OPTION_BOOL)
		return err_set(err, EINVAL, "%s: needs a value (%s)", where,
			       slot->def->value ? slot->def->value :
						  option_value_wanted(slot->def));
	return set_slot(slot, place, where, origin, value ? value : "yes",
			err);
}

int options_set(struct options *options, enum option_place place,
		const char *where, const char *name, const char *value,
		struct err *err)
{
	struct option_slot *slot = find(options, place, name);
	_cleanup_free_ char *named = NULL;

	if (!slot)
		return unknown(options, place, where, name, err);
	if (asprintf(&named, "%s: %s", where, name) < 0) {
		named = NULL;
		return err_set(err, ENOMEM, "out of memory");
	}
	return set_found(options, slot, place, named, where, value, err);
}

/* Whether the next word of argv is this option's value. */
static bool takes_next(const struct option_slot *slot, const char *value)
{
	return !value && slot->def->type != OPTION_BOOL;
}

static int parse_long(struct options *options, const char *word,
		      const char *next, bool *ret_took_next, bool *ret_ends,
		      struct err *err)
{
	const char *equals = strchr(word, '=');
	_cleanup_free_ char *name = equals ?
		strndup(word, (size_t)(equals - word)) : strdup(word);
	const char *value = equals ? equals + 1 : NULL;
	_cleanup_free_ char *named = NULL;
	struct option_slot *slot;

	if (!name || asprintf(&named, "--%s", name) < 0) {
		named = NULL;
		return err_set(err, ENOMEM, "out of memory");
	}
	slot = find(options, OPTION_ARGV, name);
	if (!slot)
		return unknown(options, OPTION_ARGV, "command line", name, err);
	if (takes_next(slot, value) && next) {
		value = next;
		*ret_took_next = true;
	}
	*ret_ends = slot->def->ends_parsing;
	return set_found(options, slot, OPTION_ARGV, named, "command line",
			 value, err);
}

/* -v, -vf, -cFILE, -c FILE. */
static int parse_letters(struct options *options, const char *letters,
			 const char *next, bool *ret_took_next,
			 bool *ret_ends, struct err *err)
{
	for (; *letters && !*ret_ends; letters++) {
		char named[] = { '-', *letters, '\0' };
		struct option_slot *slot = find_letter(options, *letters);
		const char *value = NULL;
		int r;

		if (!slot)
			return err_set(err, EINVAL, "unknown option '%s'",
				       named);
		if (takes_next(slot, NULL)) {
			value = letters[1] ? letters + 1 : next;
			*ret_took_next = !letters[1] && next;
		}
		*ret_ends = slot->def->ends_parsing;
		r = set_found(options, slot, OPTION_ARGV, named,
			      "command line", value, err);
		if (r < 0 || value)
			return r;
	}
	return 0;
}

int options_parse(struct options *options, int argc, char *const *argv,
		  struct err *err)
{
	bool are_operands = false, ends = false;

	for (int i = 1; i < argc && !ends; i++) {
		const char *word = argv[i];
		const char *next = i + 1 < argc ? argv[i + 1] : NULL;
		bool took_next = false;
		const char **operand;
		int r = 0;

		if (!are_operands && !strcmp(word, "--")) {
			are_operands = true;
		} else if (are_operands || word[0] != '-' || !word[1]) {
			operand = vec_push(&options->operands);
			if (!operand)
				return err_set(err, ENOMEM, "out of memory");
			*operand = word;
		} else if (word[1] == '-') {
			r = parse_long(options, word + 2, next, &took_next,
				       &ends, err);
		} else {
			r = parse_letters(options, word + 1, next, &took_next,
					  &ends, err);
		}
		if (r < 0)
			return r;
		i += took_next;
	}
	return 0;
}

int options_parse_list(struct options *options, const char *list,
		       struct err *err)
{
	const char *cursor = list;

	for (;;) {
		_cleanup_free_ char *word = NULL;
		char *value;
		int r = list_next(&cursor, &word);

		if (r == 0)
			return 0;
		if (r < 0)
			return err_set(err, -r, "-o: %s in '%s'",
				       r == -EINVAL ? "a quote is not closed" :
						      "out of memory", list);
		value = strchr(word, '=');
		if (value)
			*value = '\0';
		if (!find(options, OPTION_LISTED, word)) {
			if (value)
				*value = '=';
			if (mount_word_is_ignored(word) ||
			    options->skips_unknown_words)
				continue;
			if (value)
				*value = '\0';
		}
		r = options_set(options, OPTION_LISTED, "-o", word,
				value ? value + 1 : NULL, err);
		if (r < 0)
			return r;
	}
}

bool mount_word_is_ignored(const char *word)
{
	/* mount(8) and fstab(5): for the kernel's own use, for whoever calls
	 * mount, or for other tools. */
	static const char *const words[] = {
		"",	       "_netdev",      "async",	       "atime",
		"auto",	       "defaults",     "dev",	       "diratime",
		"dirsync",     "exec",	       "group",	       "iversion",
		"lazytime",    "loud",	       "mand",	       "noatime",
		"noauto",      "nodev",	       "nodiratime",   "nofail",
		"nogroup",     "noiversion",   "nolazytime",   "nomand",
		"noowner",     "norelatime",   "nostrictatime", "nosuid",
		"nouser",      "nousers",      "owner",	       "relatime",
		"ro",	       "rw",	       "silent",       "strictatime",
		"suid",	       "symfollow",    "sync",	       "user",
		"users",
	};
	static const char *const prefixes[] = {
		"x-", "X-", "comment=", "helper=", "uhelper=", "user=",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(word, words[i]))
			return true;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (starts_with(word, prefixes[i]))
			return true;
	return false;
}

bool options_is_set(const struct options *options, const char *name)
{
	for (size_t i = 0; i < options->slots.count; i++) {
		const struct option_slot *slot = &options->slots.items[i];

		if (slot->def->name && !strcmp(slot->def->name, name) &&
		    slot->place != OPTION_DEFAULT)
			return true;
	}
	return false;
}
