/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line per event. A line is built on the stack and handed over in one
 * write, so that lines of several threads never mix and logging needs no
 * memory. The level and the destination are the process's only globals
 * besides its signal flag.
 */
#include <config.h>

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "base/text.h"

#define LINE_MAX_BYTES 1024
#define MODULES_MAX 256

static _Atomic int log_level = LOG_LEVEL_INFO;
static _Atomic bool has_debug_modules;
static _Atomic bool is_syslog;
static pthread_mutex_t modules_lock = PTHREAD_MUTEX_INITIALIZER;
static char modules[MODULES_MAX]; /* guarded by modules_lock */

void log_set_level(enum log_level level)
{
	log_level = (int)level;
}

void log_set_debug(const char *names)
{
	scoped_lock(&modules_lock);

	snprintf(modules, sizeof(modules), "%s", names ? names : "");
	has_debug_modules = modules[0] != '\0';
}

void log_to_syslog(const char *ident)
{
	static char name[32]; /* openlog() keeps the pointer */

	snprintf(name, sizeof(name), "%s", ident);
	openlog(name, LOG_PID, LOG_DAEMON);
	is_syslog = true;
}

static bool is_listed(const char *list, const char *word)
{
	size_t len = strlen(word);

	while (*list) {
		size_t n = strcspn(list, ",");

		if (n == len && !strncmp(list, word, len))
			return true;
		list += n + (list[n] == ',');
	}
	return false;
}

bool log_debug_enabled(const char *module)
{
	if (log_level >= LOG_LEVEL_DEBUG)
		return true;
	if (!has_debug_modules)
		return false;
	scoped_lock(&modules_lock);
	return is_listed(modules, "all") || is_listed(modules, module);
}

static void write_line(enum log_level level, const char *module,
		       const char *text)
{
	static const struct {
		int priority;
		const char *tag;
	} levels[] = {
		[LOG_LEVEL_ERROR] = { LOG_ERR, "error: " },
		[LOG_LEVEL_WARNING] = { LOG_WARNING, "warning: " },
		[LOG_LEVEL_INFO] = { LOG_INFO, "" },
		[LOG_LEVEL_DEBUG] = { LOG_DEBUG, "debug: " },
	};
	char line[LINE_MAX_BYTES + 128];
	int len;

	if (is_syslog) {
		syslog(levels[level].priority, "%s: %s", module, text);
		return;
	}
	len = snprintf(line, sizeof(line), "larder: %s%s: %s\n",
		       levels[level].tag, module, text);
	if (len >= (int)sizeof(line))
		len = (int)sizeof(line) - 1;
	(void)write_full(STDERR_FILENO, line, (size_t)len);
}

void log_write(enum log_level level, const char *module, const char *format,
	       ...)
{
	char raw[LINE_MAX_BYTES], text[LINE_MAX_BYTES];
	int saved = errno;
	va_list args;

	if (level == LOG_LEVEL_DEBUG ? !log_debug_enabled(module) :
				       (int)level > log_level)
		return;
	va_start(args, format);
	vsnprintf(raw, sizeof(raw), format, args);
	va_end(args);
	text_printable_cut(raw, strlen(raw), text, sizeof(text));
	write_line(level, module, text);
	errno = saved;
}
