/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which repositories of the Hub are let in. What is denied is denied under
 * every spelling, since the Hub answers to all of them; what is allowed is
 * allowed as it is written, so that a rule never lets in more than it says.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "source/hub.h"

#define OWNER_MAX 96u /* the Hub's limit */

/* name: KIND/ORG/NAME or KIND/NAME. */
static bool matches(const char *pattern, const char *name,
		    bool (*compare)(const char *pattern, const char *text))
{
	const char *id = strchr(name, '/') + 1;
	const char *slash = strchr(pattern, '/');
	char owner[OWNER_MAX + 1];

	if (slash && strchr(slash + 1, '/'))
		return compare(pattern, name);
	if (slash)
		return compare(pattern, id);
	snprintf(owner, sizeof(owner), "%.*s", (int)strcspn(id, "/"), id);
	return compare(pattern, owner);
}

int hub_rules_check(const struct hub_rules *rules, enum hub_kind kind,
		    const char *id, struct err *err)
{
	const struct hub_repo repo = {.kind = kind, .id = (char *)id};
	_cleanup_free_ char *full = hub_name(&repo);
	const char *name = full ? strchr(full, '/') + 1 : NULL;
	size_t i = 0;

	if (!name)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t k = 0; k < rules->deny_count; k++) {
		if (matches(rules->deny[k], name, pattern_matches_any_case))
			return err_set(err, EACCES,
				       "'%s' is not let in here: deny = %s "
				       "(larder.conf(5) says how to change "
				       "that)",
				       name, rules->deny[k]);
	}
	while (i < rules->allow_count &&
	       !matches(rules->allow[i], name, pattern_matches))
		i++;
	if (rules->allow_count > 0 && i == rules->allow_count)
		return err_set(err, EACCES,
			       "'%s' is not let in here: no pattern of "
			       "'allow' matches (larder.conf(5) says how to "
			       "add one)",
			       name);
	return 0;
}
