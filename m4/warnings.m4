dnl SPDX-License-Identifier: Apache-2.0
dnl LARDER_TRY_CFLAGS(VARIABLE, FLAG...): add each flag the compiler takes.
dnl -Werror, because clang only warns about a flag it does not know.
AC_DEFUN([LARDER_TRY_CFLAGS], [
  for flag in m4_normalize([$2]); do
    AC_MSG_CHECKING([whether $CC accepts $flag])
    saved_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -Werror $flag"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
      [$1="$$1 $flag"; AC_MSG_RESULT([yes])], [AC_MSG_RESULT([no])])
    CFLAGS=$saved_CFLAGS
  done
])

AC_DEFUN([LARDER_C_STANDARD], [
  C_STANDARD_CFLAGS=
  LARDER_TRY_CFLAGS([C_STANDARD_CFLAGS], [-std=gnu17])
  AC_SUBST([C_STANDARD_CFLAGS])
])

AC_DEFUN([LARDER_WARNINGS], [
  AC_ARG_ENABLE([werror],
    [AS_HELP_STRING([--enable-werror], [make every warning an error (CI)])])
  WARN_CFLAGS=
  LARDER_TRY_CFLAGS([WARN_CFLAGS], [-Wall -Wextra -Wshadow -Wpointer-arith
    -Wstrict-prototypes -Wmissing-prototypes
    -Wold-style-definition -Wundef -Wvla -Wformat=2
    -Wimplicit-fallthrough -Wno-missing-field-initializers
    -Wno-unused-parameter])
  AS_IF([test "x$enable_werror" = xyes], [WARN_CFLAGS="$WARN_CFLAGS -Werror"])
  AC_SUBST([WARN_CFLAGS])
])
