# SPDX-License-Identifier: Apache-2.0
# The manual pages, one a line, sorted.
dist_man_MANS += \
	%D%/larder-format.5 \
	$(NULL)
