/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_BASE_CRASH_H
#define LARDER_BASE_CRASH_H

/*
 * Where a process may be killed. crash_point("area-step") marks a moment
 * between two steps that others, or the next process, see separately; nothing
 * but in tests/larder-crash, which dies there when told (tests/crash.c). A
 * test kills at each of them: names are found in the sources.
 */
#ifdef CRASH_POINTS
void crash_point(const char *name);
#else
#define crash_point(name) ((void)0)
#endif

#endif
