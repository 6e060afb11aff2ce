/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_BASE_ERR_H
#define LARDER_BASE_ERR_H

/*
 * The reason a call failed, in words. It lives in the caller's frame and is
 * never allocated. Functions that take one write it only on failure, and
 * accept NULL from callers who do not care.
 */
struct err {
	char text[256];
};

/* Set the text (truncated if long) and return -errnum; errnum is positive. */
int err_set(struct err *err, int errnum, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Put "format: " before the text already there; returns result unchanged. */
int err_prefix(struct err *err, int result, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The text, or strerror(-result) where err is NULL or empty. */
const char *err_text(const struct err *err, int result);

#endif
