/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the option table says to people: --help and --print-config. Help is
 * wrapped at 80 columns whatever the terminal, so that a manual can be
 * compared with it.
 */
#include <config.h>

#include <string.h>

#include "base/options.h"

#define HELP_WIDTH 80
#define HELP_COLUMN 28

/* Words of text from column on, continued under column indent. */
static void print_wrapped(FILE *file, const char *text, size_t *column)
{
	while (*text) {
		size_t len = strcspn(text, " ");

		if (*column > HELP_COLUMN && *column + len + 1 > HELP_WIDTH) {
			fprintf(file, "\n%*s", HELP_COLUMN, "");
			*column = HELP_COLUMN;
		} else if (*column > HELP_COLUMN) {
			fputc(' ', file);
			(*column)++;
		}
		fwrite(text, 1, len, file);
		*column += len;
		text += len;
		text += strspn(text, " ");
	}
}

static void print_default(FILE *file, const struct option_def *def,
			  size_t *column)
{
	char text[128];

	if (!def->default_text || def->type == OPTION_BOOL)
		return;
	snprintf(text, sizeof(text), "(default: %s)", def->default_text);
	print_wrapped(file, text, column);
}

static void print_choices(FILE *file, const struct option_def *def,
			  size_t *column)
{
	char word[64];

	if (def->type != OPTION_CHOICE)
		return;
	for (size_t i = 0; def->choices[i]; i++) {
		snprintf(word, sizeof(word), "%s%s%s", i == 0 ? "(" : "",
			 def->choices[i], def->choices[i + 1] ? "," : ")");
		print_wrapped(file, word, column);
	}
}

static void print_help_line(FILE *file, const struct option_def *def)
{
	bool is_listed_only = def->places && !(def->places & OPTION_ARGV);
	char left[128];
	size_t column;
	int n;

	n = snprintf(left, sizeof(left), "  %c%c%c %s%s%s%s",
		     def->letter ? '-' : ' ', def->letter ? def->letter : ' ',
		     def->letter ? ',' : ' ', is_listed_only ? "" : "--",
		     def->name, def->value ? "=" : "",
		     def->value ? def->value : "");
	fputs(left, file);
	column = n < 0 ? 0 : (size_t)n;
	if (column + 1 > HELP_COLUMN) {
		fputc('\n', file);
		column = 0;
	}
	fprintf(file, "%*s", (int)(HELP_COLUMN - column), "");
	column = HELP_COLUMN;
	print_wrapped(file, def->help ? def->help : "", &column);
	print_choices(file, def, &column);
	print_default(file, def, &column);
	fputc('\n', file);
}

bool options_print_help(const struct options *options, FILE *file,
			bool is_short)
{
	bool is_cut = false;

	for (size_t i = 0; i < options->slots.count; i++) {
		const struct option_def *def = options->slots.items[i].def;

		is_cut |= is_short && def->is_rare;
		if (def->is_hidden || (is_short && def->is_rare))
			continue;
		if (def->type == OPTION_HEADING)
			fprintf(file, "%s%s\n", i > 0 ? "\n" : "", def->help);
		else
			print_help_line(file, def);
	}
	return is_cut;
}

/* Commands (--help, -c) are no settings. */
static bool is_setting(const struct option_def *def)
{
	return !def->is_hidden && def->type != OPTION_HEADING &&
	       def->type != OPTION_WORDS && def->places != OPTION_ARGV;
}

void options_print_values(const struct options *options, FILE *file)
{
	for (size_t i = 0; i < options->slots.count; i++) {
		const struct option_slot *slot = &options->slots.items[i];

		if (!is_setting(slot->def))
			continue;
		if (slot->sources.count == 0 && slot->def->type == OPTION_BOOL)
			fprintf(file, "%s = no ; default\n", slot->def->name);
		else if (slot->sources.count == 0)
			fprintf(file, "; %s is not set\n", slot->def->name);
		for (size_t j = 0; j < slot->sources.count; j++) {
			const struct option_source *source =
				&slot->sources.items[j];

			fprintf(file, "%s = %s ; %s\n", slot->def->name,
				source->text,
				source->where ? source->where : "default");
		}
	}
}
