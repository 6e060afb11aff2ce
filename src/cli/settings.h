/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CLI_SETTINGS_H
#define LARDER_CLI_SETTINGS_H

#include "cli/cli.h"

/* Between settings.c, option-tables.c and config-file.c. Each table ends with
 * an empty row; the targets are struct settings and struct cli_dataset. */
extern const struct option_def cli_general_table[];
extern const struct option_def cli_node_table[];
extern const struct option_def cli_mount_table[];
extern const struct option_def cli_section_table[];

/* The file and the directory beside it; NULL: the system's, which need not be
 * there. */
int cli_read_config(struct cli *cli, const char *path, struct err *err);

#endif
