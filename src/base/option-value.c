/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One value of an option: text to a typed target, and what to say of text that
 * is none.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/option-value.h"
#include "base/text.h"

/* More values of one list than anybody writes: a loop in a generator. */
#define LIST_MAX 4096

void option_list_release(struct option_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct option_list){0};
}

static int list_append(struct option_list *list, const char *text)
{
	char **items;
	char *copy;

	if (list->count >= LIST_MAX)
		return -E2BIG;
	items = reallocarray(list->items, list->count + 2, sizeof(*items));
	if (!items)
		return -ENOMEM;
	list->items = items;
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	items[list->count++] = copy;
	items[list->count] = NULL;
	return 0;
}

static int parse_space(const struct option_def *def, const char *text,
		       struct option_space *ret)
{
	struct option_space space = {0};
	size_t len = strlen(text);
	int r;

	if (len > 0 && text[len - 1] == '%') {
		_cleanup_free_ char *digits = strndup(text, len - 1);
		uint64_t percent;

		if (!digits)
			return -ENOMEM;
		r = parse_u64(digits, &percent);
		if (r == 0 && percent > 100)
			r = -ERANGE;
		space.percent = r == 0 ? (unsigned int)percent : 0;
	} else {
		r = parse_size(text, &space.bytes);
	}
	if (r == 0 && space.percent == 0 && space.bytes < def->min)
		r = -ERANGE;
	if (r == 0)
		*ret = space;
	return r;
}

static int parse_number(const struct option_def *def, const char *text,
			uint64_t *ret)
{
	uint64_t value;
	int r;

	if (def->type == OPTION_SIZE)
		r = parse_size(text, &value);
	else if (def->type == OPTION_DURATION)
		r = parse_duration(text, &value);
	else
		r = parse_u64(text, &value);
	if (r < 0)
		return r;
	if (value < def->min || (def->max && value > def->max))
		return -ERANGE;
	*ret = value;
	return 0;
}

static int parse_choice(const struct option_def *def, const char *text,
			int *ret)
{
	for (int i = 0; def->choices[i]; i++) {
		if (strcmp(def->choices[i], text))
			continue;
		*ret = i;
		return 0;
	}
	return -EINVAL;
}

static int set_string(char **target, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return -ENOMEM;
	free(*target);
	*target = copy;
	return 0;
}

int option_value_set(const struct option_def *def, void *target,
		     const char *text)
{
	switch (def->type) {
	case OPTION_BOOL:
		return parse_bool(text, target);
	case OPTION_COUNT:
	case OPTION_SIZE:
	case OPTION_DURATION:
		return parse_number(def, text, target);
	case OPTION_STRING:
		return set_string(target, text);
	case OPTION_CHOICE:
		return parse_choice(def, text, target);
	case OPTION_LIST:
		return list_append(target, text);
	case OPTION_SPACE:
		return parse_space(def, text, target);
	case OPTION_WORDS:
	case OPTION_HEADING:
		break;
	}
	return -EINVAL;
}

const char *option_value_wanted(const struct option_def *def)
{
	switch (def->type) {
	case OPTION_BOOL:
		return "yes or no";
	case OPTION_COUNT:
		return "a number";
	case OPTION_SIZE:
		return "a size such as 10G";
	case OPTION_DURATION:
		return "a time such as 30s";
	case OPTION_SPACE:
		return "a size such as 10G or a share such as 5%";
	default:
		return "another value";
	}
}

static int bad_choice(const struct option_def *def, const char *where,
		      const char *text, struct err *err)
{
	char choices[128] = "";
	size_t len = 0;

	for (size_t i = 0; def->choices[i] && len < sizeof(choices); i++)
		len += (size_t)snprintf(choices + len, sizeof(choices) - len,
					"%s%s", i ? ", " : "", def->choices[i]);
	return err_set(err, EINVAL, "%s: '%s' is none of: %s", where, text,
		       choices);
}

int option_value_error(const struct option_def *def, const char *where,
		       const char *text, int r, struct err *err)
{
	char least[FORMAT_MAX];

	if (r == -ENOMEM)
		return err_set(err, ENOMEM, "%s: out of memory", where);
	if (r == -E2BIG)
		return err_set(err, E2BIG, "%s: more than %d values", where,
			       LIST_MAX);
	if (def->type == OPTION_CHOICE)
		return bad_choice(def, where, text, err);
	if (r == -ERANGE && def->type == OPTION_SPACE && def->min > 0)
		return err_set(err, ERANGE,
			       "%s: '%s' is out of range (%s to "
			       "100%%)",
			       where, text, format_size(def->min, least));
	if (r == -ERANGE && def->type == OPTION_COUNT && def->max > 0)
		return err_set(err, ERANGE,
			       "%s: '%s' is out of range (%" PRIu64
			       " to %" PRIu64 ")",
			       where, text, def->min, def->max);
	if (r == -ERANGE)
		return err_set(err, ERANGE, "%s: '%s' is out of range", where,
			       text);
	return err_set(err, EINVAL, "%s: '%s' is not %s", where, text,
		       option_value_wanted(def));
}

uint64_t option_space_bytes(const struct option_space *space, uint64_t total)
{
	if (!space->percent)
		return space->bytes;
	/* Divided first: exact to 100 bytes, and it cannot overflow. */
	return total / 100 * space->percent;
}
