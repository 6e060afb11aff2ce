# SPDX-License-Identifier: Apache-2.0
# `make check` runs every name in TESTS. A unit test is a line in unit_tests,
# a fuzz target a line in fuzz_targets and one for its LDADD, a shell test a
# line in dist_check_SCRIPTS. One a line, sorted.

unit_tests = \
	%D%/unit/test-answer \
	%D%/unit/test-budget \
	%D%/unit/test-buf-io \
	%D%/unit/test-cache \
	%D%/unit/test-cache-chunks \
	%D%/unit/test-cache-damage \
	%D%/unit/test-cache-disk \
	%D%/unit/test-cache-evict \
	%D%/unit/test-cache-evict-lost \
	%D%/unit/test-cache-index \
	%D%/unit/test-cache-index-check \
	%D%/unit/test-cache-large \
	%D%/unit/test-cache-pins \
	%D%/unit/test-cache-processes \
	%D%/unit/test-cache-refuses \
	%D%/unit/test-cache-seal \
	%D%/unit/test-cache-small \
	%D%/unit/test-cache-stopped \
	%D%/unit/test-cache-tables \
	%D%/unit/test-cache-threads \
	%D%/unit/test-cache-verify \
	%D%/unit/test-catalog \
	%D%/unit/test-catalog-bad \
	%D%/unit/test-catalog-writer \
	%D%/unit/test-chunker \
	%D%/unit/test-codec \
	%D%/unit/test-dataset \
	%D%/unit/test-dataset-faults \
	%D%/unit/test-dataset-head \
	%D%/unit/test-dataset-memory \
	%D%/unit/test-dataset-prefetch \
	%D%/unit/test-dataset-processes \
	%D%/unit/test-dataset-raise \
	%D%/unit/test-digest \
	%D%/unit/test-fetch \
	%D%/unit/test-fetch-faults \
	%D%/unit/test-fetch-files \
	%D%/unit/test-fetch-hold \
	%D%/unit/test-fetch-hostile \
	%D%/unit/test-fetch-names \
	%D%/unit/test-fetch-others \
	%D%/unit/test-fetch-spool \
	%D%/unit/test-flight \
	%D%/unit/test-head \
	%D%/unit/test-hub \
	%D%/unit/test-limits \
	%D%/unit/test-log \
	%D%/unit/test-mountinfo \
	%D%/unit/test-opened \
	%D%/unit/test-options \
	%D%/unit/test-origins \
	%D%/unit/test-pack \
	%D%/unit/test-places \
	%D%/unit/test-pool \
	%D%/unit/test-proxy \
	%D%/unit/test-prefetch-pace \
	%D%/unit/test-publish \
	%D%/unit/test-publish-index \
	%D%/unit/test-publish-lease \
	%D%/unit/test-publish-reader \
	%D%/unit/test-publish-shared-cut \
	%D%/unit/test-publish-walk \
	%D%/unit/test-readahead \
	%D%/unit/test-readahead-traces \
	%D%/unit/test-recipe \
	%D%/unit/test-retry \
	%D%/unit/test-s3 \
	%D%/unit/test-s3-answers \
	%D%/unit/test-select \
	%D%/unit/test-source \
	%D%/unit/test-text \
	%D%/unit/test-thread \
	%D%/unit/test-timer \
	%D%/unit/test-tree \
	%D%/unit/test-tries \
	%D%/unit/test-url \
	%D%/unit/test-version \
	$(NULL)

# What several unit tests share: sources of a library they all link.
check_LIBRARIES += %D%/unit/libunit.a
%C%_unit_libunit_a_SOURCES = \
	%D%/unit/cache-env.h \
	%D%/unit/catalog-model.c \
	%D%/unit/catalog-model.h \
	%D%/unit/data.h \
	%D%/unit/fetch-env.c \
	%D%/unit/fetch-env.h \
	%D%/unit/fetch-waiting.c \
	%D%/unit/fetch-waiting.h \
	%D%/unit/origin-server.c \
	%D%/unit/origin-server.h \
	%D%/unit/own-time.h \
	%D%/unit/publish-env.h \
	%D%/unit/scratch.h \
	%D%/unit/small-mirror.c \
	%D%/unit/small-mirror.h \
	$(NULL)
%C%_unit_libunit_a_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)

fuzz_targets = \
	%D%/fuzz/fuzz-answer \
	%D%/fuzz/fuzz-catalog \
	%D%/fuzz/fuzz-codec \
	%D%/fuzz/fuzz-config \
	%D%/fuzz/fuzz-head \
	%D%/fuzz/fuzz-hub \
	%D%/fuzz/fuzz-mount \
	%D%/fuzz/fuzz-pack \
	%D%/fuzz/fuzz-places \
	%D%/fuzz/fuzz-proxy \
	%D%/fuzz/fuzz-recipe \
	%D%/fuzz/fuzz-rows \
	%D%/fuzz/fuzz-s3 \
	%D%/fuzz/fuzz-source \
	$(NULL)

%C%_fuzz_fuzz_answer_LDADD = $(FUZZ_LIBS)
%C%_fuzz_fuzz_catalog_LDADD = $(FUZZ_LIBS)
%C%_fuzz_fuzz_codec_LDADD = $(FUZZ_LIBS)
%C%_fuzz_fuzz_config_LDADD = $(FUZZ_LIBS)
%C%_fuzz_fuzz_head_LDADD = $(FUZZ_LIBS)
%C%_fuzz_fuzz_hub_LDADD = $(FUZZ_LIBS)
%C%_fuzz_fuzz_mount_LDADD = $(FUZZ_LIBS)
%C%_fuzz_fuzz_pack_LDADD = $(FUZZ_LIBS)
%C%_fuzz_fuzz_places_LDADD = $(FUZZ_LIBS)
%C%_fuzz_fuzz_proxy_LDADD = $(FUZZ_LIBS)
%C%_fuzz_fuzz_recipe_LDADD = $(FUZZ_LIBS)
%C%_fuzz_fuzz_rows_LDADD = $(FUZZ_LIBS)
%C%_fuzz_fuzz_s3_LDADD = $(FUZZ_LIBS)
%C%_fuzz_fuzz_source_LDADD = $(FUZZ_LIBS)

dist_check_SCRIPTS += \
	%D%/check-help.sh \
	%D%/check-layers.sh \
	%D%/check-lib.sh \
	%D%/check-man.sh \
	%D%/check-style.sh \
	%D%/test-a-held-index-keeps-few-files.sh \
	%D%/test-a-mistyped-mirror-fails-at-once.sh \
	%D%/test-a-stalled-mirror-is-left.sh \
	%D%/test-a-stalled-second-try-is-left.sh \
	%D%/test-attributes-tell-and-hide.sh \
	%D%/test-blocks-are-real.sh \
	%D%/test-broken-transfers-go-on.sh \
	%D%/test-cache-inside-the-mount-is-refused.sh \
	%D%/test-check-names-what-is-bad.sh \
	%D%/test-cold-listing-needs-no-data.sh \
	%D%/test-commands-do-not-hang.sh \
	%D%/test-complete-files-are-passed-through.sh \
	%D%/test-completions-complete.sh \
	%D%/test-connections-are-limited.sh \
	%D%/test-content-encoding-is-refused.sh \
	%D%/test-contrib-files-are-sound.sh \
	%D%/test-damage-is-named.sh \
	%D%/test-dead-disk-is-read-through.sh \
	%D%/test-directory-offsets-resume.sh \
	%D%/test-failing-chunks-are-not-stormed.sh \
	%D%/test-flipped-bytes-are-never-seen.sh \
	%D%/test-foreign-cache-is-refused.sh \
	%D%/test-fstab-mounts-every-dataset.sh \
	%D%/test-full-disk-reads-through.sh \
	%D%/test-gc-empties-buckets.sh \
	%D%/test-gc-removes-the-unreachable.sh \
	%D%/test-hanging-disk-is-read-through.sh \
	%D%/test-harmed-cache-files-are-refetched.sh \
	%D%/test-heads-are-asked-conditionally.sh \
	%D%/test-heads-are-judged.sh \
	%D%/test-help-is-short-on-a-terminal.sh \
	%D%/test-hub-branches-move-when-asked.sh \
	%D%/test-hub-branches-with-slashes-are-found.sh \
	%D%/test-hub-cache-serves-clients.sh \
	%D%/test-hub-commits-are-listed-once.sh \
	%D%/test-hub-faults-are-never-read.sh \
	%D%/test-hub-files-are-pinned.sh \
	%D%/test-hub-large-files-are-verified.sh \
	%D%/test-hub-limits-are-respected.sh \
	%D%/test-hub-listings-are-whole.sh \
	%D%/test-hub-locations-are-not-the-hub.sh \
	%D%/test-hub-locations-expire.sh \
	%D%/test-hub-models-are-mapped.sh \
	%D%/test-hub-prefetch-ends-verified.sh \
	%D%/test-hub-prefetch-outlives-a-checker.sh \
	%D%/test-hub-repositories-are-mounted.sh \
	%D%/test-hub-revisions-are-frozen.sh \
	%D%/test-hub-says-who-may-not.sh \
	%D%/test-hub-sections-share-a-cache.sh \
	%D%/test-hub-servers-differ.sh \
	%D%/test-hub-tokens-stay-home.sh \
	%D%/test-hub-views-appear-on-reload.sh \
	%D%/test-hub-views-keep-the-limit.sh \
	%D%/test-hub-views-keep-the-rules.sh \
	%D%/test-hub-views-need-no-hub.sh \
	%D%/test-hub-views-show-repositories.sh \
	%D%/test-ignored-ranges-are-noticed.sh \
	%D%/test-imitated-hub-satisfies-clients.sh \
	%D%/test-index-fails-while-mounted.sh \
	%D%/test-insertion-costs-little.sh \
	%D%/test-killed-at-every-point.sh \
	%D%/test-limit-holds-under-load.sh \
	%D%/test-listings-are-kept.sh \
	%D%/test-lost-index-is-proven-again.sh \
	%D%/test-lost-packets-are-bounded.sh \
	%D%/test-many-processes-fetch-once.sh \
	%D%/test-memory-is-bounded.sh \
	%D%/test-min-free-is-kept.sh \
	%D%/test-mirror-gone-is-not-empty.sh \
	%D%/test-mirrors-are-refreshed-when-asked.sh \
	%D%/test-mirrors-come-and-go.sh \
	%D%/test-mount-helper-takes-every-word.sh \
	%D%/test-mount-is-read-only.sh \
	%D%/test-mount-leaves-broken-sections-out.sh \
	%D%/test-mount-says-why-not.sh \
	%D%/test-mount-takes-turns.sh \
	%D%/test-mounts-share-a-cache.sh \
	%D%/test-names-are-kept.sh \
	%D%/test-new-sections-appear.sh \
	%D%/test-new-snapshot-is-seen.sh \
	%D%/test-offline-is-said-once.sh \
	%D%/test-open-files-outlive-a-snapshot.sh \
	%D%/test-opens-and-closes-race.sh \
	%D%/test-ordinary-users-mount.sh \
	%D%/test-overlay-on-top.sh \
	%D%/test-passthrough-falls-back.sh \
	%D%/test-pinned-files-stay.sh \
	%D%/test-power-cut-loses-only-work.sh \
	%D%/test-prefetch-fills-the-cache.sh \
	%D%/test-prefetch-for-ordinary-users.sh \
	%D%/test-prefetch-has-its-own-connections.sh \
	%D%/test-prefetch-resumes.sh \
	%D%/test-prefetch-says-why-not.sh \
	%D%/test-prefetch-shows-progress.sh \
	%D%/test-processes-come-and-go.sh \
	%D%/test-programs-read-the-mount.sh \
	%D%/test-proxies-are-used-and-named.sh \
	%D%/test-publish-commands.sh \
	%D%/test-publish-is-deterministic.sh \
	%D%/test-publish-lays-small-files-together.sh \
	%D%/test-publish-on-a-full-disk.sh \
	%D%/test-publish-refuses-changes.sh \
	%D%/test-publish-resumes.sh \
	%D%/test-publish-round-trip.sh \
	%D%/test-publish-shows-progress.sh \
	%D%/test-publish-sparse-and-large.sh \
	%D%/test-publish-stores-little.sh \
	%D%/test-publish-takes-turns.sh \
	%D%/test-publish-to-a-bucket-resumes.sh \
	%D%/test-publish-to-a-bucket.sh \
	%D%/test-publish-warns-of-other-keys.sh \
	%D%/test-public-datasets-are-read.sh \
	%D%/test-quota-reads-through.sh \
	%D%/test-random-reads-match.sh \
	%D%/test-reads-are-never-short.sh \
	%D%/test-reads-fetch-what-they-need.sh \
	%D%/test-replaced-files-are-not-mixed.sh \
	%D%/test-real-models-load.sh \
	%D%/test-s3-errors-say-what-to-do.sh \
	%D%/test-s3-mirrors-are-read.sh \
	%D%/test-scribbled-index-is-noticed.sh \
	%D%/test-servers-without-ranges.sh \
	%D%/test-session-on-a-descriptor.sh \
	%D%/test-silent-mirror-is-bounded.sh \
	%D%/test-sizes-beyond-32-bits.sh \
	%D%/test-small-files-come-with-the-open.sh \
	%D%/test-snapshots-are-never-mixed.sh \
	%D%/test-start-on-a-hanging-disk.sh \
	%D%/test-status-names-the-commit.sh \
	%D%/test-status-of-a-hanging-disk.sh \
	%D%/test-status-shows-every-dataset.sh \
	%D%/test-status-shows-the-cache.sh \
	%D%/test-stuck-mirror-leaves-others-alone.sh \
	%D%/test-tls-is-checked.sh \
	%D%/test-tree-round-trips.sh \
	%D%/test-unanswered-connections-are-bounded.sh \
	%D%/test-unreachable-is-not-absent.sh \
	%D%/test-verify-finds-and-repairs.sh \
	%D%/test-warm-reads-ask-nobody.sh \
	$(NULL)

# Sourced by tests, or read by them.
EXTRA_DIST += \
	%D%/compare-trees.py \
	%D%/namespace.sh \
	%D%/data \
	%D%/fuzz/corpus \
	%D%/hub-log.sh \
	%D%/hub/cache-view.mjs \
	%D%/hub/cache-view.py \
	%D%/hub/client.mjs \
	%D%/hub/client.py \
	%D%/hub/compare-weights.py \
	%D%/hub/contents.py \
	%D%/hub/embed.mjs \
	%D%/hub/embed.py \
	%D%/hub/expect.py \
	%D%/hub/export.py \
	%D%/hub/faults.py \
	%D%/hub/fixtures.py \
	%D%/hub/hub.py \
	%D%/hub/load-model.py \
	%D%/hub/make-datasets.py \
	%D%/hub/models-package.json \
	%D%/hub/models-requirements.txt \
	%D%/hub/package.json \
	%D%/hub/read-datasets.py \
	%D%/hub/repos.py \
	%D%/hub/requirements.txt \
	%D%/lib.sh \
	%D%/make-tree.py \
	%D%/pty-run.py \
	%D%/run-test \
	%D%/s3-requirements.txt \
	%D%/s3-server.py \
	%D%/traffic.sh \
	$(NULL)

# ----------------------------------------------------------------------------

check_LIBRARIES += %D%/fuzz/libreplay.a
%C%_fuzz_libreplay_a_SOURCES = %D%/fuzz/replay.c

if FUZZING
FUZZ_LIBS = $(FUZZ_LDFLAGS) $(CORE_LIBS)
else
FUZZ_LIBS = %D%/fuzz/libreplay.a $(CORE_LIBS)
endif

# The default for test programs, whose source is their name with .c.
LDADD = %D%/unit/libunit.a $(CORE_LIBS) $(CMOCKA_LIBS)
AM_DEFAULT_SOURCE_EXT = .c

# A disk that hangs.
%C%_unit_test_fetch_files_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pread_full
%C%_unit_test_cache_seal_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=sync_file_range
# One that is slow, and fails.
%C%_unit_test_dataset_memory_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=pread_full,--wrap=cache_blob_put_chunk

# Tests use them; they are none.
check_PROGRAMS += \
	%D%/httpd \
	%D%/larder-crash \
	%D%/random-reads \
	%D%/seed-index \
	%D%/stamped \
	$(NULL)

# larder that dies at named points: every source that has some, once more.
%C%_larder_crash_SOURCES = \
	%D%/crash.c \
	src/base/io.c \
	src/cache/blob-attach.c \
	src/cache/blobs.c \
	src/cache/evictor.c \
	src/cache/index-write.c \
	src/cache/index.c \
	src/cache/layout.c \
	src/cache/recorder.c \
	src/cache/sealer.c \
	src/cache/unit-store.c \
	src/dataset/chunk-job.c \
	src/dataset/chunk-request.c \
	src/dataset/chunk-verify.c \
	src/main.c \
	$(NULL)
%C%_larder_crash_CPPFLAGS = $(AM_CPPFLAGS) -DCRASH_POINTS
%C%_larder_crash_LDADD = $(CORE_LIBS)

check_PROGRAMS += $(fuzz_targets)
if !FUZZING
TESTS += $(fuzz_targets)
endif
if HAVE_CMOCKA
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)
endif
TESTS += $(dist_check_SCRIPTS)

TEST_EXTENSIONS = .sh
AM_TESTS_ENVIRONMENT = \
	top_srcdir='$(abs_top_srcdir)'; export top_srcdir; \
	top_builddir='$(abs_top_builddir)'; export top_builddir; \
	CC='$(CC)'; export CC; \
	CHECK_CFLAGS='$(C_STANDARD_CFLAGS) $(CPPFLAGS) $(FUSE_CFLAGS) $(CURL_CFLAGS)'; export CHECK_CFLAGS; \
	SANITIZERS='$(enable_sanitizers)'; export SANITIZERS;
LOG_COMPILER = $(SHELL) $(top_srcdir)/tests/run-test
SH_LOG_COMPILER = $(LOG_COMPILER)

.PHONY: check-build check-fuzz-build check-style check-units check-valgrind

# Everything `make check` needs, without running it.
check-build: all
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) $(check_LIBRARIES) $(check_PROGRAMS)

check-fuzz-build: all
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) $(fuzz_targets)

check-units: check-build
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(unit_tests)'

# Of the whole program: mounts that are read, listed, refreshed and ended.
valgrind_tests = \
	%D%/test-hub-repositories-are-mounted.sh \
	%D%/test-new-sections-appear.sh \
	%D%/test-new-snapshot-is-seen.sh \
	%D%/test-prefetch-fills-the-cache.sh \
	%D%/test-publish-commands.sh \
	%D%/test-tree-round-trips.sh \
	%D%/test-warm-reads-ask-nobody.sh \
	$(NULL)

check-valgrind: check-build
	$(AM_V_at)TEST_TIMEOUT_SCALE=20 TEST_UNDER="$(VALGRIND) -q \
	--error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite \
	--show-leak-kinds=definite \
	--suppressions=$(abs_top_srcdir)/build-aux/valgrind.supp" \
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(unit_tests) $(valgrind_tests)'

check-style: check-build
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) check TESTS=%D%/check-style.sh

# Files of gigabytes and trees of 100,000 names, which other runs scale down.
full_tests = \
	%D%/test-cold-listing-needs-no-data.sh \
	%D%/test-insertion-costs-little.sh \
	%D%/test-limit-holds-under-load.sh \
	%D%/test-mirrors-come-and-go.sh \
	%D%/test-publish-stores-little.sh \
	%D%/test-reads-are-never-short.sh \
	%D%/test-sizes-beyond-32-bits.sh \
	%D%/test-tree-round-trips.sh \
	%D%/unit/test-cache-large \
	$(NULL)

.PHONY: check-full
check-full: check-build
	$(AM_V_at)LARDER_TEST_FULL=1 SCALE=100 TEST_TIMEOUT_SCALE=10 \
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(full_tests)'

# What survives kills, power cuts and dead disks, at length.
crash_tests = \
	%D%/test-dead-disk-is-read-through.sh \
	%D%/test-index-fails-while-mounted.sh \
	%D%/test-killed-at-every-point.sh \
	%D%/test-power-cut-loses-only-work.sh \
	%D%/test-processes-come-and-go.sh \
	$(NULL)

.PHONY: check-crash
check-crash: check-build
	$(AM_V_at)CRASH_ROUNDS=100 POWER_CUTS=30 COME_AND_GO=200 \
	TEST_TIMEOUT_SCALE=10 \
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(crash_tests)'

# Real programs that are too heavy for every change, on a real model:
# contrib/install-packages check-clients.
client_tests = \
	%D%/test-models-compute.sh \
	$(NULL)
EXTRA_DIST += $(client_tests)

.PHONY: check-clients
check-clients: check-build
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(client_tests)'

# clang, valgrind, fuzzing, distcheck: an hour, before a release.
.PHONY: check-all
check-all:
	bash $(top_srcdir)/contrib/check-all
