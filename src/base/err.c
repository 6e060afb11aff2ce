/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reason of a failure, in words. Texts are cut at the size of struct
 * err instead of being allocated: an error path must not fail itself.
 */
#include <config.h>

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

int err_set(struct err *err, int errnum, const char *format, ...)
{
	struct err text;
	va_list args;

	assert(errnum > 0);
	if (!err)
		return -errnum;
	/* The arguments may point into *err: format aside, then copy. */
	va_start(args, format);
	vsnprintf(text.text, sizeof(text.text), format, args);
	va_end(args);
	*err = text;
	return -errnum;
}

int err_prefix(struct err *err, int result, const char *format, ...)
{
	struct err text;
	va_list args;
	size_t len;
	int n;

	if (!err)
		return result;
	va_start(args, format);
	vsnprintf(text.text, sizeof(text.text), format, args);
	va_end(args);
	len = strlen(text.text);
	/* Cut where it is too long: the front says what failed. */
	n = snprintf(text.text + len, sizeof(text.text) - len, ": %s",
		     err_text(err, result));
	if (n < 0)
		return result;
	*err = text;
	return result;
}

const char *err_text(const struct err *err, int result)
{
	const char *text = NULL;

	if (err && err->text[0])
		return err->text;
	if (result < 0)
		text = strerrordesc_np(-result);
	return text ? text : "unknown error";
}
