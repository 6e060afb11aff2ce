#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make configure from configure.ac; for those who build from git.
set -eu

cd "$(dirname "$0")"
exec autoreconf --force --install --warnings=all,no-portability
