/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as text and back: hexadecimal digits and base64. One value has one
 * spelling, so that what is compared as text is compared as bytes.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

void hex_encode(const void *data, size_t len, char *ret_text)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *bytes = data;

	for (size_t i = 0; i < len; i++) {
		ret_text[2 * i] = digits[bytes[i] >> 4];
		ret_text[2 * i + 1] = digits[bytes[i] & 15];
	}
	ret_text[2 * len] = '\0';
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int hex_decode(const char *text, void *ret_data, size_t len)
{
	uint8_t *bytes = ret_data;

	/* Checked first: the output is written only on success. */
	for (size_t i = 0; i < 2 * len; i++)
		if (hex_value(text[i]) < 0)
			return -EINVAL;
	if (text[2 * len])
		return -EINVAL;
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(hex_value(text[2 * i]) << 4 |
				     hex_value(text[2 * i + 1]));
	return 0;
}

static const char base64_digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_encode(const void *data, size_t len)
{
	const uint8_t *in = data;
	char *text, *out;

	if (len > SIZE_MAX / 2)
		return NULL;
	text = out = malloc((len + 2) / 3 * 4 + 1);
	if (!text)
		return NULL;
	for (size_t i = 0; i < len; i += 3) {
		uint32_t group = (uint32_t)in[i] << 16;

		if (i + 1 < len)
			group |= (uint32_t)in[i + 1] << 8;
		if (i + 2 < len)
			group |= in[i + 2];
		*out++ = base64_digits[group >> 18];
		*out++ = base64_digits[group >> 12 & 63];
		*out++ = i + 1 < len ? base64_digits[group >> 6 & 63] : '=';
		*out++ = i + 2 < len ? base64_digits[group & 63] : '=';
	}
	*out = '\0';
	return text;
}

/* Four digits to 24 bits; digits after the padding started are refused. */
static int base64_group(const char *text, size_t padding, uint32_t *ret)
{
	uint32_t group = 0;

	for (size_t i = 0; i < 4; i++) {
		const char *digit = base64_digits;

		if (i < 4 - padding)
			digit = text[i] ? strchr(base64_digits, text[i]) : NULL;
		if (!digit)
			return -EINVAL;
		group = group << 6 | (uint32_t)(digit - base64_digits);
	}
	/* Bits under the padding must be zero: one text for one value. */
	if (padding && (group & ((1u << (8 * padding)) - 1)))
		return -EINVAL;
	*ret = group;
	return 0;
}

int base64_decode(const char *text, size_t text_len, void *ret_data,
		  size_t size, size_t *ret_len)
{
	uint8_t *out = ret_data;
	size_t padding = 0, len;

	if (text_len % 4)
		return -EINVAL;
	if (text_len && text[text_len - 1] == '=')
		padding = text[text_len - 2] == '=' ? 2 : 1;
	len = text_len / 4 * 3 - padding;
	if (len > size)
		return -ERANGE;
	for (size_t i = 0; i < text_len; i += 4) {
		bool is_last = i + 4 == text_len;
		size_t unused = is_last ? padding : 0;
		uint32_t group;
		int r = base64_group(text + i, unused, &group);

		if (r < 0)
			return r;
		for (size_t j = 0; j < 3 - unused; j++)
			*out++ = (uint8_t)(group >> (16 - 8 * j));
	}
	*ret_len = len;
	return 0;
}
