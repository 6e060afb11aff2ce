dnl SPDX-License-Identifier: Apache-2.0
dnl Libraries without a dependable pkg-config file.
AC_DEFUN([LARDER_LMDB], [
  PKG_CHECK_MODULES([LMDB], [lmdb], [], [
    saved_LIBS=$LIBS
    AC_CHECK_HEADER([lmdb.h], [], [AC_MSG_ERROR([lmdb.h was not found])])
    AC_CHECK_LIB([lmdb], [mdb_env_create], [LMDB_LIBS=-llmdb],
      [AC_MSG_ERROR([liblmdb was not found])])
    LIBS=$saved_LIBS
    AC_SUBST([LMDB_CFLAGS])
    AC_SUBST([LMDB_LIBS])
  ])
])

AC_DEFUN([LARDER_THREADS], [
  saved_LIBS=$LIBS
  LIBS=
  AC_SEARCH_LIBS([pthread_create], [pthread])
  THREAD_LIBS=$LIBS
  LIBS=$saved_LIBS
  AC_SUBST([THREAD_LIBS])
])

dnl Only the unit tests need it: without it they are not built.
AC_DEFUN([LARDER_CMOCKA], [
  PKG_CHECK_MODULES([CMOCKA], [cmocka >= 1.1],
    [have_cmocka=yes], [have_cmocka=no])
  AM_CONDITIONAL([HAVE_CMOCKA], [test "x$have_cmocka" = xyes])
])

dnl libfuse, and whether it can pass files through (3.17).
AC_DEFUN([LARDER_FUSE], [
  PKG_CHECK_MODULES([FUSE], [fuse3 >= 3.10])
  saved_CPPFLAGS=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $FUSE_CFLAGS"
  AC_CHECK_MEMBERS([struct fuse_file_info.backing_id], [], [],
    [[#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>]])
  CPPFLAGS=$saved_CPPFLAGS
])
