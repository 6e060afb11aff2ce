/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CLI_OPTION_ROWS_H
#define LARDER_CLI_OPTION_ROWS_H

#include "base/options.h"

/* Rows of option tables that several commands have, word for word. The
 * argument is the target's offset in the command's own struct. */
#define ROW_FLAG(name_, letter_, offset_, help_)                               \
	{                                                                      \
		.name = (name_), .letter = (letter_), .type = OPTION_BOOL,     \
		.places = OPTION_ARGV, .offset = (offset_), .help = (help_)    \
	}
#define ROW_JSON(offset_) ROW_FLAG("json", 0, offset_, "print JSON")
#define ROW_DRY_RUN(offset_)                                                   \
	ROW_FLAG("dry-run", 0, offset_, "say what would be removed")
#define ROW_YES(offset_)                                                       \
	ROW_FLAG("yes", 'y', offset_, "do not ask (it asks only on a terminal)")
#define ROW_SIGNING_KEY(offset_)                                               \
	{                                                                      \
		.name = "key", .letter = 'k', .type = OPTION_STRING,           \
		.places = OPTION_ARGV, .offset = (offset_), .value = "FILE",   \
		.help = "sign with this secret key, made by larder keygen"     \
	}
#define ROW_THREADS(offset_)                                                        \
	{                                                                           \
		.name = "threads", .type = OPTION_COUNT,                            \
		.places = OPTION_ARGV, .offset = (offset_), .value = "N",           \
		.min = 1, .max = 256,                                               \
		.help = "work on so many threads (default: one for each processor)" \
	}

#endif
