# SPDX-License-Identifier: Apache-2.0
# What is installed of contrib: completions, the unit, a configuration to fill in.
bashcompletiondir = $(datadir)/bash-completion/completions
zshcompletiondir = $(datadir)/zsh/site-functions
fishcompletiondir = $(datadir)/fish/vendor_completions.d
larderexampledir = $(docdir)/examples

dist_zshcompletion_DATA = %D%/completions/_larder
dist_fishcompletion_DATA = %D%/completions/larder.fish
dist_larderexample_DATA = %D%/fstab.example %D%/larder.conf

larder.service: $(srcdir)/contrib/larder.service.in Makefile
	$(AM_V_GEN)$(SED) 's,@bindir[@],$(bindir),g' $< > $@

if WITH_SYSTEMD
nodist_systemdsystemunit_DATA = larder.service
CLEANFILES += larder.service
endif

# bash finds a completion by the command's name.
install-data-local: install-bash-completion
.PHONY: install-bash-completion
install-bash-completion:
	$(MKDIR_P) '$(DESTDIR)$(bashcompletiondir)'
	$(INSTALL_DATA) $(srcdir)/contrib/completions/larder.bash \
		'$(DESTDIR)$(bashcompletiondir)/larder'
uninstall-local:
	rm -f '$(DESTDIR)$(bashcompletiondir)/larder'
