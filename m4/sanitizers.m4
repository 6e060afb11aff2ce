dnl SPDX-License-Identifier: Apache-2.0
dnl --enable-sanitizers=address,undefined or =thread; --enable-fuzzing links
dnl the fuzz targets with libFuzzer instead of the corpus replay.
AC_DEFUN([LARDER_SANITIZERS], [
  AC_ARG_ENABLE([sanitizers],
    [AS_HELP_STRING([--enable-sanitizers=LIST],
      [build with -fsanitize=LIST, for example address,undefined])])
  SAN_CFLAGS=
  AS_CASE(["$enable_sanitizers"],
    [""|no], [enable_sanitizers=no],
    [yes], [enable_sanitizers=address,undefined])
  AS_IF([test "x$enable_sanitizers" != xno], [
    SAN_CFLAGS="-fsanitize=$enable_sanitizers -fno-omit-frame-pointer"
    AS_CASE([",$enable_sanitizers,"], [*,undefined,*],
      [SAN_CFLAGS="$SAN_CFLAGS -fno-sanitize-recover=undefined"])
    saved_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS $SAN_CFLAGS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [],
      [AC_MSG_ERROR([$CC cannot build with -fsanitize=$enable_sanitizers])])
    CFLAGS=$saved_CFLAGS
    dnl Fences are for memory that LMDB writes, which is not instrumented.
    AS_CASE([",$enable_sanitizers,"], [*,thread,*],
      [LARDER_TRY_CFLAGS([SAN_CFLAGS], [-Wno-tsan])])
  ])
  AC_SUBST([SAN_CFLAGS])
  AC_SUBST([enable_sanitizers])
])

AC_DEFUN([LARDER_FUZZING], [
  AC_ARG_ENABLE([fuzzing],
    [AS_HELP_STRING([--enable-fuzzing],
      [link the fuzz targets with libFuzzer (clang)])])
  FUZZ_LDFLAGS=
  AS_IF([test "x$enable_fuzzing" = xyes], [
    LARDER_TRY_CFLAGS([SAN_CFLAGS], [-fsanitize=fuzzer-no-link])
    FUZZ_LDFLAGS=-fsanitize=fuzzer
  ])
  AC_SUBST([FUZZ_LDFLAGS])
  AM_CONDITIONAL([FUZZING], [test "x$enable_fuzzing" = xyes])
])

dnl Yields at locks and conditions: src/base/noise.c.
AC_DEFUN([LARDER_NOISE], [
  AC_ARG_ENABLE([schedule-noise],
    [AS_HELP_STRING([--enable-schedule-noise],
      [threads yield at random, to be combined with sanitizers])])
  NOISE_LDFLAGS=
  AS_IF([test "x$enable_schedule_noise" = xyes],
    [for name in mutex_lock mutex_unlock cond_signal cond_broadcast; do
      NOISE_LDFLAGS="$NOISE_LDFLAGS -Wl,--wrap=pthread_$name"
    done])
  AC_SUBST([NOISE_LDFLAGS])
  AM_CONDITIONAL([NOISE], [test "x$enable_schedule_noise" = xyes])
])
