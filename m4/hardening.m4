dnl SPDX-License-Identifier: Apache-2.0
dnl Hardening where the compiler and linker take it. _FORTIFY_SOURCE needs
dnl optimization, is left alone where the user set it, and is off under
dnl sanitizers, whose own checks of the same functions are better.
AC_DEFUN([LARDER_HARDENING], [
  HARDEN_CFLAGS=
  HARDEN_CPPFLAGS=
  HARDEN_LDFLAGS=
  LARDER_TRY_CFLAGS([HARDEN_CFLAGS], [-fstack-protector-strong
    -fstack-clash-protection -fcf-protection])
  AS_IF([test "x${enable_sanitizers:-no}" = xno &&
         test "x${enable_fuzzing:-no}" = xno], [
    saved_CFLAGS=$CFLAGS
    saved_LDFLAGS=$LDFLAGS
    CFLAGS="$CFLAGS -fPIE"
    LDFLAGS="$LDFLAGS -pie"
    AC_MSG_CHECKING([whether $CC makes position independent programs])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
      [HARDEN_CFLAGS="$HARDEN_CFLAGS -fPIE"
       HARDEN_LDFLAGS="$HARDEN_LDFLAGS -pie"
       AC_MSG_RESULT([yes])], [AC_MSG_RESULT([no])])
    CFLAGS=$saved_CFLAGS
    LDFLAGS=$saved_LDFLAGS
    AS_CASE([" $CFLAGS $CPPFLAGS "],
      [*_FORTIFY_SOURCE*], [],
      [*" -O0 "*], [],
      [*" -O"*], [LARDER_FORTIFY])
  ])
  LARDER_TRY_CFLAGS([HARDEN_LDFLAGS], [-Wl,-z,relro -Wl,-z,now])
  AC_SUBST([HARDEN_CFLAGS])
  AC_SUBST([HARDEN_CPPFLAGS])
  AC_SUBST([HARDEN_LDFLAGS])
])

dnl Some compilers define it themselves, at a level they choose.
AC_DEFUN([LARDER_FORTIFY], [
  AC_MSG_CHECKING([for a _FORTIFY_SOURCE that does not warn])
  saved_CFLAGS=$CFLAGS
  fortify=no
  for level in 3 2; do
    CFLAGS="$saved_CFLAGS -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$level"
    AS_IF([test $fortify = no],
      [AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <string.h>]], [])],
        [fortify=$level])])
  done
  CFLAGS=$saved_CFLAGS
  AS_IF([test $fortify != no],
    [HARDEN_CPPFLAGS="-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$fortify"])
  AC_MSG_RESULT([$fortify])
])
