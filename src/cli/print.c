/* SPDX-License-Identifier: Apache-2.0 */
/* Names on a terminal and in JSON. */
#include <config.h>

#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "cli/cli.h"

void cli_print_name(const char *name, size_t len)
{
	_cleanup_free_ char *printable =
		isatty(STDOUT_FILENO) ? text_printable(name, len) : NULL;

	if (printable)
		fputs(printable, stdout);
	else
		fwrite(name, 1, len, stdout);
}

/* Length of the UTF-8 sequence at text, or 0 if it is none. */
static size_t utf8_length(const unsigned char *text, size_t len)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t need = text[0] < 0x80	 ? 1 :
		      text[0] >> 5 == 6	 ? 2 :
		      text[0] >> 4 == 14 ? 3 :
		      text[0] >> 3 == 30 ? 4 :
					   0;
	uint32_t value = need > 1 ? text[0] & (0x7fu >> need) : text[0];

	if (!need || need > len)
		return 0;
	for (size_t i = 1; i < need; i++) {
		if (text[i] >> 6 != 2)
			return 0;
		value = value << 6 | (text[i] & 0x3f);
	}
	if (value < smallest[need] || value > 0x10ffff ||
	    (value >= 0xd800 && value < 0xe000))
		return 0;
	return need;
}

void cli_print_json(const char *text, size_t len)
{
	putchar('"');
	for (size_t i = 0; i < len;) {
		unsigned char byte = (unsigned char)text[i];
		size_t n =
			utf8_length((const unsigned char *)text + i, len - i);

		if (n == 0)
			fputs("\\ufffd", stdout);
		else if (byte == '"' || byte == '\\')
			printf("\\%c", byte);
		else if (byte < 0x20 || byte == 0x7f)
			printf("\\u%04x", byte);
		else
			fwrite(text + i, 1, n, stdout);
		i += n ? n : 1;
	}
	putchar('"');
}
