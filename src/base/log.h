/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_BASE_LOG_H
#define LARDER_BASE_LOG_H

#include <stdbool.h>

#include "base/io.h" /* now_ms, for log_limited */

/*
 * One line per event, "module: event key=value". stderr in the foreground,
 * syslog once log_to_syslog() was called. Thread-safe. Text is made
 * printable: no control bytes reach a terminal or journal. base/ and
 * format/ never log.
 */
enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_set_level(enum log_level level);
/* "all" or a comma list of modules: "cache,fetch". */
void log_set_debug(const char *modules);
void log_to_syslog(const char *ident);
bool log_debug_enabled(const char *module);
void log_write(enum log_level level, const char *module, const char *format,
	       ...) __attribute__((format(printf, 3, 4)));

/* A file defines LOG_MODULE before including this header. */
#ifdef LOG_MODULE
#define log_error(...) log_write(LOG_LEVEL_ERROR, LOG_MODULE, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, LOG_MODULE, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, LOG_MODULE, __VA_ARGS__)
#define log_debug(...)                                                        \
	do {                                                                  \
		if (log_debug_enabled(LOG_MODULE))                            \
			log_write(LOG_LEVEL_DEBUG, LOG_MODULE, __VA_ARGS__);  \
	} while (0)
#endif

/* At most once per interval at each place: for storms. */
#define log_limited(interval_ms, call)                                        \
	do {                                                                  \
		static _Atomic unsigned long long log_next_;                  \
		unsigned long long log_now_ = now_ms();                       \
		if (log_now_ >= log_next_) {                                  \
			log_next_ = log_now_ + (interval_ms);                 \
			call;                                                 \
		}                                                             \
	} while (0)

#endif
