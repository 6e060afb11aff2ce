# SPDX-License-Identifier: Apache-2.0
# The manual pages, one a line, sorted.
dist_man_MANS += \
	%D%/larder-cat.1 \
	%D%/larder-check.1 \
	%D%/larder-evict.1 \
	%D%/larder-format.5 \
	%D%/larder-gc.1 \
	%D%/larder-keygen.1 \
	%D%/larder-log.1 \
	%D%/larder-ls.1 \
	%D%/larder-mount.1 \
	%D%/larder-pin.1 \
	%D%/larder-prefetch.1 \
	%D%/larder-publish.1 \
	%D%/larder-refresh.1 \
	%D%/larder-rollback.1 \
	%D%/larder-tag.1 \
	%D%/larder-umount.1 \
	%D%/larder-unpin.1 \
	%D%/larder-verify.1 \
	%D%/larder.1 \
	%D%/larder.conf.5 \
	%D%/mount.larder.8 \
	$(NULL)
