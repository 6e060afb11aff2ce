/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flights between processes. A claim is an OFD lock on one byte, so it dies
 * with its process, however that dies. Progress and the wake-up word lie in a
 * small shared file which is read and written by system calls only; its
 * mapping exists to give futex calls an address, and is not writable, since a
 * call on a page that may be written waits for the disk as a write does. So a
 * truncated file or a dead disk is an error code (then waiters poll), never a
 * signal, and no process can leave the words in a state that stops others.
 * Words hold times rather than counters: they need no atomic increment across
 * processes.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "cache/claims.h"
#include "cache/files.h"
#include "cache/layout.h"

/* Page 0 holds the wake-up word, the rest one word per slot. Digests that
 * share a slot only make a silent holder look alive for longer. */
#define WAKE_PAGE 4096u
#define IDLE_OFFSET 64u /* in page 0 */
#define PROGRESS_SLOTS 65536u
#define WAKE_FILE_BYTES (WAKE_PAGE + PROGRESS_SLOTS * 4)

/* Without the shared word: what a waiter loses at most. */
#define POLL_MS 20u

static uint64_t claim_byte(const struct digest *unit)
{
	return load_le64(unit->bytes) >> 2; /* offsets are signed */
}

static uint64_t progress_offset(const struct digest *unit)
{
	return WAKE_PAGE + load_le32(unit->bytes + 8) % PROGRESS_SLOTS * 4;
}

static uint32_t word_read(int fd, uint64_t offset)
{
	uint32_t word = 0;

	if (fd < 0 || pread_full(fd, &word, sizeof(word), offset) !=
			      sizeof(word))
		return 0;
	return word;
}

void claims_open(struct claims *claims, struct disk *disk, int dirfd)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	void *address;

	*claims = (struct claims){ .fd = -1, .wake_fd = -1 };
	if (dirfd < 0)
		return;
	fd = open_regular(dirfd, LAYOUT_CLAIMS, O_RDWR | O_CREAT, 0600);
	claims->fd = steal_fd(&fd);
	fd = open_regular(dirfd, LAYOUT_WAKE, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	if (st.st_size < (off_t)WAKE_FILE_BYTES &&
	    posix_fallocate(fd, 0, WAKE_FILE_BYTES) != 0)
		return;
	address = mmap(NULL, WAKE_PAGE, PROT_READ, MAP_SHARED, fd, 0);
	if (address == MAP_FAILED)
		return;
	claims->wake = address;
	claims->wake_fd = steal_fd(&fd);
	claims->seen = word_read(claims->wake_fd, 0);
	words_init(&claims->words, disk, claims->wake_fd, claims->wake);
}

void claims_close(struct claims *claims)
{
	if (claims->wake) {
		words_release(&claims->words);
		munmap(claims->wake, WAKE_PAGE);
	}
	if (claims->wake_fd >= 0)
		close(claims->wake_fd);
	if (claims->fd >= 0)
		close(claims->fd);
	*claims = (struct claims){ .fd = -1, .wake_fd = -1 };
}

int claims_take(struct claims *claims, const struct digest *unit)
{
	if (claims->fd < 0)
		return 1;
	/* Only a lock that is held says no; ENOLCK and the like cost at most
	 * a second download. */
	return ofd_lock(claims->fd, F_WRLCK, claim_byte(unit), 1) != -EAGAIN;
}

void claims_drop(struct claims *claims, const struct digest *unit)
{
	if (claims->fd >= 0)
		(void)ofd_lock(claims->fd, F_UNLCK, claim_byte(unit), 1);
	claims_wake(claims);
}

void claims_progress(struct claims *claims, const struct digest *unit)
{
	if (claims->wake)
		words_tell(&claims->words, progress_offset(unit),
			   (uint32_t)now_ms());
}

uint32_t claims_progress_read(struct claims *claims, const struct digest *unit)
{
	return word_read(claims->wake_fd, progress_offset(unit));
}

void claims_wake(struct claims *claims)
{
	if (claims->wake)
		words_tell(&claims->words, 0, (uint32_t)now_ns());
}

static void pause_ms(uint32_t ms)
{
	struct timespec ts = { ms / 1000, (long)(ms % 1000) * 1000000 };

	nanosleep(&ts, NULL);
}

void claims_wait(struct claims *claims, uint32_t timeout_ms)
{
	struct timespec ts = { timeout_ms / 1000,
			       (long)(timeout_ms % 1000) * 1000000 };
	uint32_t now;

	if (!claims->wake) {
		pause_ms(timeout_ms < POLL_MS ? timeout_ms : POLL_MS);
		return;
	}
	now = word_read(claims->wake_fd, 0);
	if (atomic_exchange(&claims->seen, now) != now)
		return;
	if (syscall(SYS_futex, claims->wake, FUTEX_WAIT, now, &ts, NULL, 0) < 0 &&
	    errno != EAGAIN && errno != ETIMEDOUT && errno != EINTR)
		pause_ms(timeout_ms < POLL_MS ? timeout_ms : POLL_MS);
	atomic_store(&claims->seen, word_read(claims->wake_fd, 0));
}

void claims_ask_idle(struct claims *claims)
{
	if (claims->wake)
		words_tell(&claims->words, IDLE_OFFSET,
			   (uint32_t)(now_ns() >> 10));
}

uint32_t claims_idle_asked(struct claims *claims)
{
	return word_read(claims->wake_fd, IDLE_OFFSET);
}
