# SPDX-License-Identifier: MIT
# programs.mk - how the test programs are linked: a part of the Makefile, which lists their sources.

# A system call that valgrind lacks: see tests/aid/openat2.c.
$(O)/openat2.so: tests/aid/openat2.c Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(FLAGS) $(HOSTED) -fPIC -shared -Wl,-z,relro,-z,now -o $@ $<

# A test program's own linker flags are in NAME.ldflags in its folder (the fault seam: -Wl,--wrap=...).
test_link = $(Q)$(CC) $(LINK) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(call content,$*.ldflags) $(LDLIBS)
$(UNIT): $(O)/%: $(O)/%.o $(call objects,$(UNIT_AID)) $(LIB) $(wildcard tests/unit/*.ldflags)
	$(call say,LINK,$@)
	$(test_link) -lcmocka

$(SIM): $(O)/%: $(O)/%.o $(call objects,$(SIM_AID)) $(LIB) $(wildcard tests/sim/*.ldflags)
	$(call say,LINK,$@)
	$(test_link) -lcmocka

# The unit tests of server/site.c, run against the kernel's site instead.
$(TWIN): $(O)/tests/kernel/%: $(O)/tests/unit/%.o $(O)/tests/kernel/site_twin.o $(call objects,$(UNIT_AID)) $(LIB)
	$(call say,LINK,$@)
	$(test_link) -lcmocka

$(TWIN_CACHE): %: %.o $(O)/tests/kernel/site_twin.o $(LIB)
	$(call say,LINK,$@)
	$(test_link) -lcmocka -lz

.PHONY: twins
twins: $(TWIN) $(TWIN_CACHE)

# libFuzzer brings its own main(); every other compiler gets ours.
$(FUZZ): $(O)/%: $(O)/%.o $(call objects,$(FUZZ_AID) $(if $(filter fuzz,$(MODE)),,$(FUZZ_MAIN))) $(LIB)
	$(call say,LINK,$@)
	$(test_link)

.PHONY: fuzz-programs
fuzz-programs: $(FUZZ)
