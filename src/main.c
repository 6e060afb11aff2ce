/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command table and the global options; what a command does is in cli/.
 */
#include <config.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--version")) {
		printf("larder %s\n", PACKAGE_VERSION);
		return 0;
	}
	fprintf(stderr, "usage: larder COMMAND [ARGUMENT]...\n");
	return 2;
}
