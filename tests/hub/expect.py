# SPDX-License-Identifier: Apache-2.0
"""What the clients' programs expect of a call."""
import sys


def fails(error, call, *args, **options):
    try:
        call(*args, **options)
    except error as found:
        return found
    sys.exit("%s%r did not fail" % (call.__name__, args))
