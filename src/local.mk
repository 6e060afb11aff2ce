# SPDX-License-Identifier: Apache-2.0
# libcore.a is everything but main.c; the program is main.c and libcore.a.
# One file a line, sorted.
noinst_LIBRARIES += %D%/libcore.a
%C%_libcore_a_SOURCES = \
	%D%/base/buf.c \
	%D%/base/buf.h \
	%D%/base/bytes.h \
	%D%/base/cleanup.h \
	%D%/base/config.c \
	%D%/base/err.c \
	%D%/base/err.h \
	%D%/base/io.c \
	%D%/base/io.h \
	%D%/base/log.c \
	%D%/base/log.h \
	%D%/base/options-print.c \
	%D%/base/options.c \
	%D%/base/options.h \
	%D%/base/pattern.c \
	%D%/base/text.c \
	%D%/base/text.h \
	%D%/base/vec.h \
	%D%/cache/blob-table.c \
	%D%/cache/blobs.c \
	%D%/cache/blobs.h \
	%D%/cache/cache.c \
	%D%/cache/cache.h \
	%D%/cache/claims.c \
	%D%/cache/claims.h \
	%D%/cache/evict.c \
	%D%/cache/evict.h \
	%D%/cache/fault.c \
	%D%/cache/fault.h \
	%D%/cache/files.c \
	%D%/cache/files.h \
	%D%/cache/index-private.h \
	%D%/cache/index-write.c \
	%D%/cache/index.c \
	%D%/cache/index.h \
	%D%/cache/internal.h \
	%D%/cache/keeper.c \
	%D%/cache/keeper.h \
	%D%/cache/layout.c \
	%D%/cache/layout.h \
	%D%/cache/objects.c \
	%D%/cache/recorder.c \
	%D%/cache/recorder.h \
	%D%/cache/rows.c \
	%D%/cache/rows.h \
	%D%/cache/space.c \
	%D%/cache/space.h \
	%D%/cache/units.c \
	%D%/dataset/ahead.c \
	%D%/dataset/blob.c \
	%D%/dataset/blob.h \
	%D%/dataset/budget.c \
	%D%/dataset/budget.h \
	%D%/dataset/chunk-job.c \
	%D%/dataset/chunk-verify.c \
	%D%/dataset/chunk.h \
	%D%/dataset/dataset.c \
	%D%/dataset/dataset.h \
	%D%/dataset/errors.c \
	%D%/dataset/flight.c \
	%D%/dataset/flight.h \
	%D%/dataset/foreign.c \
	%D%/dataset/head.c \
	%D%/dataset/head.h \
	%D%/dataset/node.c \
	%D%/dataset/node.h \
	%D%/dataset/object-job.c \
	%D%/dataset/object.c \
	%D%/dataset/object.h \
	%D%/dataset/objects.c \
	%D%/dataset/objects.h \
	%D%/dataset/places.c \
	%D%/dataset/pool.c \
	%D%/dataset/pool.h \
	%D%/dataset/read.c \
	%D%/dataset/read.h \
	%D%/dataset/readahead.c \
	%D%/dataset/readahead.h \
	%D%/dataset/recent.c \
	%D%/dataset/recent.h \
	%D%/dataset/snapshot.c \
	%D%/dataset/snapshot.h \
	%D%/dataset/stats.c \
	%D%/dataset/stats.h \
	%D%/dataset/timer.c \
	%D%/dataset/timer.h \
	%D%/dataset/tries.c \
	%D%/dataset/tries.h \
	%D%/dataset/waiter.c \
	%D%/dataset/waiter.h \
	%D%/dataset/work.c \
	%D%/dataset/work.h \
	%D%/dataset/xattr.c \
	%D%/fetch/answer.c \
	%D%/fetch/answer.h \
	%D%/fetch/fetch.c \
	%D%/fetch/fetch.h \
	%D%/fetch/files.c \
	%D%/fetch/internal.h \
	%D%/fetch/job.c \
	%D%/fetch/origins.c \
	%D%/fetch/pace.c \
	%D%/fetch/pace.h \
	%D%/fetch/retry.c \
	%D%/fetch/transfer.c \
	%D%/fetch/url.c \
	%D%/fetch/url.h \
	%D%/format/catalog-build.c \
	%D%/format/catalog-build.h \
	%D%/format/catalog-check.c \
	%D%/format/catalog-layout.h \
	%D%/format/catalog-rules.c \
	%D%/format/catalog-writer.c \
	%D%/format/catalog-writer.h \
	%D%/format/catalog.c \
	%D%/format/catalog.h \
	%D%/format/chunker.c \
	%D%/format/chunker.h \
	%D%/format/codec.c \
	%D%/format/codec.h \
	%D%/format/digest.c \
	%D%/format/digest.h \
	%D%/format/gear.h \
	%D%/format/head.c \
	%D%/format/head.h \
	%D%/format/interner.c \
	%D%/format/interner.h \
	%D%/format/keys.c \
	%D%/format/limits.h \
	%D%/format/pack.c \
	%D%/format/pack.h \
	%D%/format/places.c \
	%D%/format/places.h \
	%D%/format/preamble.c \
	%D%/format/preamble.h \
	%D%/format/recipe-layout.h \
	%D%/format/recipe-writer.c \
	%D%/format/recipe.c \
	%D%/format/recipe.h \
	%D%/format/signature.c \
	%D%/mount/bounded.c \
	%D%/mount/daemon.c \
	%D%/mount/internal.h \
	%D%/mount/mount.c \
	%D%/mount/mount.h \
	%D%/mount/mountinfo.c \
	%D%/mount/mountpoint.c \
	%D%/mount/op.c \
	%D%/mount/op.h \
	%D%/mount/ops.c \
	%D%/mount/read.c \
	%D%/mount/readdir.c \
	%D%/mount/readonly.c \
	%D%/mount/session.c \
	%D%/mount/session.h \
	%D%/mount/tree.c \
	%D%/mount/tree.h \
	%D%/mount/xattr.c \
	%D%/publish/blob.c \
	%D%/publish/blob.h \
	%D%/publish/chunk-index.c \
	%D%/publish/chunk-index.h \
	%D%/publish/lease.c \
	%D%/publish/lease.h \
	%D%/publish/mirror-store.c \
	%D%/publish/mirror-store.h \
	%D%/publish/open-below.c \
	%D%/publish/pack-tables.c \
	%D%/publish/pack-tables.h \
	%D%/publish/pack-writer.c \
	%D%/publish/pack-writer.h \
	%D%/publish/parallel.c \
	%D%/publish/parallel.h \
	%D%/publish/placing.c \
	%D%/publish/placing.h \
	%D%/publish/reader.c \
	%D%/publish/reader.h \
	%D%/publish/shared-cut.c \
	%D%/publish/shared-cut.h \
	%D%/publish/walk.c \
	%D%/publish/walk.h \
	%D%/source/mirror.c \
	%D%/source/source.h \
	$(NULL)

bin_PROGRAMS += larder
larder_SOURCES = %D%/main.c
larder_LDADD = $(CORE_LIBS)

EXTRA_DIST += %D%/LAYERS

# mount(8) calls the helper; it is the program under another name.
install-exec-hook:
	$(MKDIR_P) '$(DESTDIR)$(sbindir)'
	rm -f '$(DESTDIR)$(sbindir)/mount.larder'
	$(LN_S) ../bin/larder '$(DESTDIR)$(sbindir)/mount.larder'

uninstall-hook:
	rm -f '$(DESTDIR)$(sbindir)/mount.larder'
