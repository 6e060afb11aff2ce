/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_IOCTL_H
#define LARDER_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>

/*
 * What a larder mount answers on an open file or directory; explained in
 * larder-prefetch(1). Layouts never change: a new one gets a new number.
 */

/* Queue a prefetch of this file, or of what is below this directory. */
struct larder_prefetch {
	__u64 job;	  /* out: its number */
	__u64 limit_rate; /* bytes a second over the network; 0: none */
	__u32 flags;	  /* LARDER_PREFETCH_...; unknown ones are refused */
	__u32 glob_count; /* patterns in globs, a NUL behind each */
	char globs[4072];
};
#define LARDER_PREFETCH_DRY_RUN 1u /* count only */

/* How job is. Only the user who queued it and root may ask. */
#define LARDER_PREFETCH_ORIGINS 8
struct larder_prefetch_state {
	__u64 job; /* in */
	__u32 state; /* LARDER_PREFETCH_QUEUED... */
	__s32 result; /* once ended: 0 or a negative errno */
	__u64 files, files_done, files_failed;
	__u64 bytes, bytes_done, bytes_at_start;
	__u64 wire_bytes, room_bytes, stalled_ms;
	char reason[256]; /* why nothing comes */
	char error[256];  /* once ended with a failure: why */
	__u32 origin_count, reserved;
	struct {
		char name[120];
		__u64 wire_bytes;
	} origins[LARDER_PREFETCH_ORIGINS];
};
enum {
	LARDER_PREFETCH_QUEUED,
	LARDER_PREFETCH_LISTING,
	LARDER_PREFETCH_COUNTING,
	LARDER_PREFETCH_FETCHING,
	LARDER_PREFETCH_CHECKING,
	LARDER_PREFETCH_ENDED,
};

/* End it early. What is here stays. */
struct larder_prefetch_stop {
	__u64 job;
};

/*
 * Look now whether the dataset of this file or directory, or every one that is
 * open below a directory, has a new snapshot. Only for the mount's user and
 * root. The names lead there within a second after the answer.
 */
struct larder_refresh {
	__u32 count, changed, failed, reserved; /* out: datasets */
	char error[256]; /* out: of the last one that failed */
};

#define LARDER_IOC_PREFETCH _IOWR(0xD1, 1, struct larder_prefetch)
#define LARDER_IOC_PREFETCH_STATE _IOWR(0xD1, 2, struct larder_prefetch_state)
#define LARDER_IOC_PREFETCH_STOP _IOW(0xD1, 3, struct larder_prefetch_stop)
#define LARDER_IOC_REFRESH _IOR(0xD1, 4, struct larder_refresh)

#endif
