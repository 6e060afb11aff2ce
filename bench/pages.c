/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps a file and reads one byte of each page, as who loads a model does: all
 * that is measured is what the page faults cost.
 *
 *	pages FILE
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096

int main(int argc, char **argv)
{
	unsigned long sum = 0;
	unsigned char *map;
	struct stat st;
	int fd = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0 || fstat(fd, &st) < 0)
		return 1;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return 1;
	for (off_t at = 0; at < st.st_size; at += PAGE)
		sum += map[at];
	printf("%lu\n", sum);
	return 0;
}
