/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_BASE_CLEANUP_H
#define LARDER_BASE_CLEANUP_H

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * Release by scope. `_cleanup_(fn) struct thing *t = NULL;` calls fn(&t) at
 * the end of the scope. steal_ptr and steal_fd hand the resource over.
 * errno survives every cleanup here.
 */
#define _cleanup_(fn) __attribute__((cleanup(fn)))

#define DEFINE_CLEANUP(type, release)                                         \
	static inline void release##_p(type *thing)                           \
	{                                                                     \
		if (*thing)                                                   \
			release(*thing);                                      \
	}                                                                     \
	struct larder_swallow_semicolon

static inline void cleanup_free_p(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close_p(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

static inline void cleanup_closedir_p(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static inline void cleanup_unlock_p(pthread_mutex_t **mutex)
{
	pthread_mutex_unlock(*mutex);
}

#define _cleanup_free_ _cleanup_(cleanup_free_p)
#define _cleanup_close_ _cleanup_(cleanup_close_p)
#define _cleanup_closedir_ _cleanup_(cleanup_closedir_p)

/* Locks until the end of the enclosing scope. */
#define scoped_lock(mutex)                                                    \
	pthread_mutex_t *scoped_lock_mutex _cleanup_(cleanup_unlock_p) =      \
		(pthread_mutex_lock(mutex), (mutex));                         \
	(void)scoped_lock_mutex

#define steal_ptr(p)                                                          \
	({                                                                    \
		__typeof__(p) stolen_ = (p);                                  \
		(p) = NULL;                                                   \
		stolen_;                                                      \
	})

static inline int steal_fd(int *fd)
{
	int stolen = *fd;

	*fd = -1;
	return stolen;
}

#endif
