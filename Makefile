# SPDX-License-Identifier: MIT
# Makefile - the only entry point: everything that can be built, run, tested or installed is a target here.
#
# No recursion into folders; the rules of test programs are in tests/programs.mk.  Everything made is under
# BUILD (default build/), objects in a folder per MODE, so `make clean` and `rm -rf build` are always safe.
# MODE selects how it is compiled:
#   release  what people run: optimised and hardened     debug  for a debugger, and for unit tests
#   asan     address + undefined behaviour sanitizers    tsan   thread sanitizer
#   coverage gcov counters                               fuzz   clang's libFuzzer (CC=clang)
# release-lto, -pgo, -o3, -native, or several (release-lto-pgo): a release with link-time optimisation, with a profile
# that scripts/train gathers, with -O3, or only for this processor.  docs/lab/builds.md shows the gain of each.
# WERROR=1 makes a warning an error: our own checks set it; another compiler may warn of more than ours does.
# V=1 shows the commands.  `make` alone lists the targets.
BUILD ?= build
MODE ?= release
WERROR ?=
KERNEL ?= 6.1
PREFIX ?= /usr/local
PYTHON ?= /usr/bin/python3
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:
MAKEFLAGS += --no-builtin-rules

# BUILD has one spelling, however it was given: the lists of prerequisites (*.d) name the objects as make did.
override BUILD := $(patsubst $(CURDIR)/%,%,$(abspath $(BUILD)))
O := $(BUILD)/$(MODE)
G := $(BUILD)/gen
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-8s %s\n' '$(1)' '$(2)')

# --- How it is compiled -----------------------------------------------------------------------------------

ifeq ($(origin CC),default)
CC := gcc
endif
AR ?= ar
WARN := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wvla -Wundef -Wpointer-arith \
    -Wwrite-strings -Wformat-security -Wold-style-definition
# A frame larger than a page touches each page in turn, so that it cannot step over a guard page.
FLAGS := -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -g -fPIE -pthread -fstack-clash-protection $(WARN)
ifeq ($(WERROR),1)
FLAGS += -Werror
endif
LINK := -pie -pthread -Wl,-z,relro,-z,now
# ld.gold links the many test programs in a third of the time.
QUICK_LINKER := $(if $(shell command -v ld.gold),-fuse-ld=gold)
# Whether that header is installed, and so its library.  No comment may follow on these lines: the space before it is a "yes".
has = $(shell printf '\043if __has_include(<%s>)\nyes\n\043endif\n' '$(1)' | $(CC) $(CPPFLAGS) -E -P -x c - 2>/dev/null)
COMPRESSORS := $(if $(call has,libdeflate.h),gzip) $(if $(call has,brotli/encode.h),br) $(if $(call has,zstd.h),zstd)
MISSING := $(filter-out $(COMPRESSORS),gzip br zstd)
TLS := $(call has,openssl/ssl.h)
QR := $(call has,qrencode.h)
H2 := $(call has,nghttp2/nghttp2.h)
MARKDOWN := $(call has,cmark.h)
ARCHIVE := $(and $(call has,archive.h),$(call has,zlib.h))
LDLIBS := -luring -lcrypt $(if $(filter gzip,$(COMPRESSORS)),-ldeflate) $(if $(filter br,$(COMPRESSORS)),-lbrotlienc) \
    $(if $(filter zstd,$(COMPRESSORS)),-lzstd) $(if $(TLS),-lssl -lcrypto) $(if $(QR),-lqrencode) $(if $(H2),-lnghttp2) $(if $(ARCHIVE),-lz) $(if $(MARKDOWN),-lcmark)
PROBES := $(call has,sys/sdt.h)
BPF_CC ?= clang
TRACER := $(if $(shell command -v $(BPF_CC)),$(call has,bpf/libbpf.h))
UNWINDER := $(call has,elfutils/libdwfl.h)
HOSTED := # flags for everything except core/
# The core uses only mem* and strlen (tests/link.sh), so the compiler may know what those mean.  The kernel's
# rule that declarations come first holds there, because Kbuild compiles the core too.
CORE := -ffreestanding -fbuiltin -Wdeclaration-after-statement

# The variants of a release; train: it counts what it executes, for a profile.
WAYS := $(if $(filter release-%,$(MODE)),$(subst -, ,$(MODE:release-%=%)))
ifneq ($(filter-out lto pgo train o3 native,$(WAYS)),)
$(error MODE=release is followed by -lto, -pgo, -o3 or -native; not by '$(filter-out lto pgo train o3 native,$(WAYS))')
endif
ifneq ($(and $(filter lto pgo train,$(WAYS)),$(findstring clang,$(shell $(CC) --version))),)
$(error MODE=$(MODE) needs gcc, and CC is $(CC))
endif

ifneq ($(filter release release-%,$(MODE)),)
FLAGS += $(if $(filter o3,$(WAYS)),-O3,-O2) $(if $(filter native,$(WAYS)),-march=native) -fstack-protector-strong
HOSTED += -D_FORTIFY_SOURCE=2
# Two builds in different folders are the same bytes: debuggers find sources from the folder that has them.
FLAGS += -fdebug-prefix-map=$(CURDIR)=. -fmacro-prefix-map=$(CURDIR)=.
ifneq ($(filter lto,$(WAYS)),)
AR := gcc-ar
FLAGS += -flto=auto
LINK += -flto=auto
endif
ifneq ($(filter train,$(WAYS)),)
FLAGS += -fprofile-generate -fprofile-update=atomic
LINK += -fprofile-generate
endif
# Code that training did not reach is compiled as if there were no profile.
ifneq ($(filter pgo,$(WAYS)),)
FLAGS += -fprofile-use -fprofile-partial-training -fprofile-correction -Wno-missing-profile
PROFILE := $(O)/profile
endif
else ifeq ($(MODE),debug)
FLAGS += -Og -fstack-protector-strong
LINK += $(QUICK_LINKER)
# The sanitizers' reports need lines, not variables.  With -g1 and -Og they compile in half the time of -g and -O1, and run as fast.
else ifeq ($(MODE),asan)
FLAGS += -Og -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
LINK += -fsanitize=address,undefined $(QUICK_LINKER)
else ifeq ($(MODE),tsan)
FLAGS += -Og -g1 -fno-omit-frame-pointer -fsanitize=thread
LINK += -fsanitize=thread $(QUICK_LINKER)
else ifeq ($(MODE),coverage)
FLAGS += -O0 --coverage
LINK += --coverage
else ifeq ($(MODE),fuzz)
FLAGS += -O1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
LINK += -fsanitize=fuzzer,address,undefined
else
$(error MODE is release (-lto, -pgo, -o3, -native), debug, asan, tsan, coverage or fuzz; not '$(MODE)')
endif

# --- Sources and programs ---------------------------------------------------------------------------------

MAIN := server/main.c
MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
# Each base/coro_MACHINE.c is for one machine.
OTHERS := $(filter-out base/coro_$(MACHINE).c,$(wildcard base/coro_*.c)) $(MISSING:%=server/compress_%.c) \
    $(addprefix server/,$(if $(PROBES),probe_absent.c,probe.c) $(if $(QR),qr_absent.c,qr.c) $(if $(ARCHIVE),pack_absent.c,pack.c) \
    $(if $(MARKDOWN),markdown_absent.c,markdown.c) \
    $(if $(TLS),tls_absent.c digest_absent.c,digest.c tls_openssl.c tls_keys.c tls_memory.c tls_store.c tls_set.c tls_self.c tls_ocsp.c tls_verify.c) \
    $(if $(H2),h2_absent.c,h2.c h2_request.c h2_body.c h2_answer.c h2_stream.c))
LIB_SRC := $(sort $(filter-out $(MAIN) $(OTHERS),$(wildcard core/*.c base/*.c server/*.c engines/*.c)))
programs = $(sort $(if $(wildcard $(1)/*.c),$(shell grep -lE '$(2)' $(wildcard $(1)/*.c))))
UNIT_SRC := $(filter-out $(if $(H2),,%/h2.c %/h2_time.c %/h2_memory.c) $(if $(ARCHIVE),,%/pack.c %/archive_digest.c) \
    $(if $(TLS),,%/digest.c %/tls_memory.c %/tls_read_memory.c %/tls_cold_memory.c %/tls_given.c),$(call programs,tests/unit,^int main\b))
SIM_SRC := $(call programs,tests/sim,^int main\b)
FUZZ_SRC := $(filter-out %/main.c $(if $(H2),,%/h2.c),$(call programs,tests/fuzz,^int LLVMFuzzerTestOneInput\b))
# A file without an entry point is shared by the programs in its folder.
UNIT_AID := $(filter-out $(UNIT_SRC),$(wildcard tests/unit/*.c))
SIM_AID := $(filter-out $(SIM_SRC),$(wildcard tests/sim/*.c))
FUZZ_MAIN := tests/fuzz/main.c
FUZZ_AID := $(filter-out $(FUZZ_SRC) $(FUZZ_MAIN),$(wildcard tests/fuzz/*.c))

LIB := $(O)/librung.a
RUNG := $(O)/rung
STATIC := $(O)/rung-static
LOAD := $(O)/rung-load
DROP := $(O)/rung-drop
TRACE := $(O)/rung-trace
UNIT := $(UNIT_SRC:%.c=$(O)/%)
SIM := $(SIM_SRC:%.c=$(O)/%)
TWIN := $(patsubst tests/unit/%.c,$(O)/tests/kernel/%,$(wildcard tests/unit/site*.c))
TWIN_CACHE := $(addprefix $(O)/tests/kernel/,site_cache site_changes site_races site_listings)
FUZZ := $(FUZZ_SRC:%.c=$(O)/%)
LOAD_SRC := $(sort $(filter-out $(if $(TLS),%/tls_absent.c,%/tls.c) $(if $(H2),%/h2_absent.c,%/h2.c),$(wildcard tools/load/*.c)))
DROP_SRC := $(sort $(wildcard tools/drop/*.c))
TRACE_SRC := $(sort $(filter-out tools/trace/%.bpf.c $(if $(TRACER),%/attach_absent.c %/sniff_filter_absent.c,%/attach.c %/sniff_filter.c %/object.c) \
    $(if $(UNWINDER),%/unwind_absent.c,%/unwind.c),$(wildcard tools/trace/*.c)))
ALL_SRC := $(LIB_SRC) $(MAIN) $(LOAD_SRC) $(DROP_SRC) $(TRACE_SRC) $(UNIT_SRC) $(SIM_SRC) $(UNIT_AID) $(SIM_AID) $(FUZZ_SRC) $(FUZZ_AID) $(FUZZ_MAIN)
# Each folder is a program of the lab.
LAB_NAMES := $(notdir $(patsubst %/,%,$(wildcard lab/programs/*/)))
LAB_SRC := $(sort $(wildcard lab/programs/*/*.c))
LAB := $(LAB_NAMES:%=$(O)/lab/%)
ALL_SRC += $(LAB_SRC) $(wildcard tests/kernel/site_*.c)
objects = $(patsubst %.c,$(O)/%.o,$(1))
GEN := $(G)/mime_types.h
CODERS := $(G)/compressors.def

VERSION := $(shell sed -nE 's/^.define RUNG_VERSION "(.*)"/\1/p' base/version.h)
DKMS_TREE := $(DESTDIR)/usr/src/rung-$(VERSION)

# --- Targets for people ------------------------------------------------------------------------------------

.PHONY: rung static image kernel check-kernel check-debug-kernel dkms lab-programs bench plots help all run check check-all accept quick soak coverage docs answers cost load-cost trigger spread doors kernel-compile fuzz tests c-tests clean install uninstall
help: ## this list
	@echo 'make TARGET [MODE=release|debug|asan|tsan] [BUILD=folder] [V=1]'
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' Makefile | expand -t 19

all: $(RUNG) $(LOAD) $(DROP) $(TRACE) $(O)/rung-lab $(BUILD)/compile_commands.json ## build rung and its tools: build/MODE/rung

run: ## install what building needs, build, serve www/
	@scripts/setup run
	@$(MAKE) --no-print-directory -j"$$(nproc)" all
	@exec $(RUNG) serve www

check: ## what must hold before a change is taken
	@scripts/setup check
	@$(PYTHON) tests/run.py --build $(BUILD)

check-all: ## the same on every engine, under every sanitizer, with fuzzing and packages: before a release
	@scripts/setup check
	@$(PYTHON) tests/run.py --build $(BUILD) --plan all

accept: ## each option as its user tries it, with programs of others; then the packages, on a machine that systemd boots
	@scripts/setup check
	@$(PYTHON) tests/run.py --build $(BUILD) --plan all --only '^(accept|package)$$'

quick: ## the part of it that takes less than a minute
	@scripts/setup quick
	@$(PYTHON) tests/run.py --build $(BUILD) --quick

coverage: ## how much of core/ the unit, split and simulator tests reach
	@scripts/setup check
	@$(PYTHON) tests/run.py --build $(BUILD) --coverage

fuzz: ## fuzz every target for a while: FUZZ_SECONDS (60) in all
	@scripts/setup check
	@FUZZ_SECONDS="$${FUZZ_SECONDS:-60}" $(PYTHON) tests/run.py --build $(BUILD) --only fuzz

soak: all ## mixed traffic for a long time: HOURS=2 or MINUTES=30, ENGINES='epoll:2 pool', KEEP=1
	@$(PYTHON) tests/soak.py --bin $(RUNG) $(HOURS:%=--hours %) $(MINUTES:%=--minutes %) $(KEEP:%=--keep) $(ENGINES)

docs: ## write the figures, the tables, the options and the picture of server/ anew
	@$(PYTHON) scripts/numbers && $(PYTHON) scripts/rows
	@$(MAKE) --no-print-directory MODE=debug all
	@$(PYTHON) scripts/options $(BUILD)/debug
	@$(PYTHON) scripts/layers $(BUILD)/debug

cost: ## what each engine costs, relative to epoll (docs/cost.md); COST=--quick: in two minutes
	@scripts/setup lab
	@$(MAKE) --no-print-directory all
	@$(PYTHON) lab/cost.py --rung $(RUNG) $(COST)

bench: all ## the lab: every experiment, two minutes each; BENCH='NAME ... --full'
	@scripts/setup lab
	@$(RUNG) lab run $(BENCH)

plots: ## draw lab/results anew, without measuring: pages in build/lab, docs/lab
	@scripts/setup lab
	@$(PYTHON) -B lab/plots.py --out $(BUILD)/lab

trigger: ## what epoll tells level, edge and one-shot: wake-ups and left-over bytes, into docs/engines/readiness.md
	@$(PYTHON) lab/trigger.py --write && $(PYTHON) lab/trigger.py

answers: all ## the demonstrations of docs/questions.md: NAME=time-wait, or all; ANSWERS=--write
	@scripts/setup lab
	@$(PYTHON) lab/answers.py --bin $(O) $(ANSWERS) $(NAME)

doors: all ## what clients see of a server that stops or is full: DOORS='stop --targets epoll,nginx-tuned'
	@$(PYTHON) -B lab/doors.py --rung $(RUNG) $(or $(DOORS),stop)

spread: all ## to which workers connections fall, and how many each wakes: SPREAD='--write docs/workers.md'
	@$(PYTHON) lab/spread.py --rung $(RUNG) $(SPREAD)

load-cost: all ## what a request costs rung load and wrk, asking the same nginx; LOAD_COST=--quick, --write
	@scripts/setup lab
	@$(PYTHON) lab/load_cost.py --load $(LOAD) $(LOAD_COST)

lab-programs: $(LAB) $(O)/openat2.so # programs that the lab measures, other than servers

kernel-compile: ## compile core/ as part of a kernel module, against Debian's headers
	@scripts/setup check
	@scripts/kernel-compile $(BUILD)

kernel: ## build the modules for Debian's kernel KERNEL=6.1|6.12: build/kernel-6.1/kernel/*.ko
	@scripts/setup kernel
	@$(PYTHON) lab/vm/build --kernel $(KERNEL) --build $(BUILD)

check-kernel: all ## boot Debian's kernels in an emulator and try the modules there: docs/kernel-lab.md
	@scripts/setup kernel
	@$(PYTHON) tests/run.py --build $(BUILD) --plan kernel

check-debug-kernel: all ## the same with kernels built to find faults, which takes a while
	@scripts/setup kernel
	@$(PYTHON) tests/run.py --build $(BUILD) --plan debug-kernel

dkms: $(GEN) ## install the modules' sources for DKMS under DESTDIR/usr/src, and build nothing
	install -d $(DKMS_TREE)/core $(DKMS_TREE)/kernel
	install -m 644 $(wildcard core/*) $(GEN) $(DKMS_TREE)/core
	install -m 644 $(filter-out %/dkms.conf,$(wildcard kernel/*)) $(DKMS_TREE)/kernel
	sed 's/@VERSION@/$(VERSION)/' kernel/dkms.conf >$(DKMS_TREE)/dkms.conf

static: $(STATIC) ## rung as one file that needs no library: build/MODE/rung-static

image: $(O)/rung.oci.tar ## an OCI image of that file and nothing else: build/MODE/rung.oci.tar

rung: $(RUNG)

tests: all c-tests ## build the test programs of this MODE

# LEFT_OUT: those of them that are not wanted, as tests/unit/NAME.
c-tests: $(if $(filter debug,$(MODE)),$(O)/openat2.so) $(filter-out $(LEFT_OUT:%=$(O)/%),$(UNIT) $(SIM))

clean: ## remove everything made
	rm -rf $(BUILD)

BIN_DIR := $(DESTDIR)$(PREFIX)/bin
SHARE_DIR := $(DESTDIR)$(PREFIX)/share/rung
LIB_DIR := $(DESTDIR)$(PREFIX)/lib/rung
MAN_DIR := $(DESTDIR)$(PREFIX)/share/man/man1
BASH_DIR := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSH_FOLDER := $(PREFIX)/share/zsh/site-functions
ZSH_DIR := $(DESTDIR)$(ZSH_FOLDER)
FISH_DIR := $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
UNIT_FOLDER ?= $(PREFIX)/lib/systemd/system
UNIT_DIR := $(DESTDIR)$(UNIT_FOLDER)
# Debian has it on every machine; elsewhere it may be http or nginx.
SERVICE_USER ?= www-data
UNITS := rung.service rung.socket
INSTALLED := rung rung-load rung-drop rung-trace
# Completed in each shell, with a manual page; other commands have a page, too, or are on that of rung.
PROGRAMS := $(INSTALLED) rung-lab
COMMANDS := config echo engines doctor
TRACES := compare sniff kernel
ON_RUNGS_PAGE := serve help version man completion options
PAGES := $(PROGRAMS) $(COMMANDS:%=rung-%) $(TRACES:%=rung-trace-%)
COMPLETIONS := $(PROGRAMS:%=$(BASH_DIR)/%) $(PROGRAMS:%=$(ZSH_DIR)/_%) $(PROGRAMS:%=$(FISH_DIR)/%.fish)

install: all lab-programs ## install under DESTDIR and PREFIX (/usr/local), the lab too
	install -D -m 755 -t $(BIN_DIR) $(INSTALLED:%=$(O)/%)
	install -d $(MAN_DIR) $(BASH_DIR) $(ZSH_DIR) $(FISH_DIR)
	for name in '' $(COMMANDS); do $(RUNG) man $$name >$(MAN_DIR)/rung$${name:+-}$$name.1 || exit 1; done
	for name in $(filter-out rung,$(PROGRAMS)); do $(O)/$$name --man >$(MAN_DIR)/$$name.1 || exit 1; done
	for name in $(TRACES); do $(TRACE) $$name --man >$(MAN_DIR)/rung-trace-$$name.1 || exit 1; done
	for name in $(ON_RUNGS_PAGE); do ln -sf rung.1 $(MAN_DIR)/rung-$$name.1; done
	for name in $(PROGRAMS); do \
	    words() { if [ $$name = rung ]; then $(RUNG) completion $$1; else $(O)/$$name --completion=$$1; fi; } && \
	    words bash >$(BASH_DIR)/$$name && words zsh >$(ZSH_DIR)/_$$name && words fish >$(FISH_DIR)/$$name.fish || exit 1; done
	chmod 644 $(PAGES:%=$(MAN_DIR)/%.1) $(COMPLETIONS)
	install -D -m 644 -t $(UNIT_DIR) $(UNITS:%=scripts/systemd/%)
	sed -i 's|@bindir@|$(PREFIX)/bin|; s|@user@|$(SERVICE_USER)|' $(UNITS:%=$(UNIT_DIR)/%)
	install -D -m 755 -t $(LIB_DIR)/lab $(LAB)
	install -m 755 $(O)/openat2.so $(LIB_DIR)
	ln -sf ../../bin/rung ../../bin/rung-load $(LIB_DIR)
	for folder in lab lab/experiments lab/peers lab/vm; do \
	    install -D -m 644 -t $(SHARE_DIR)/$$folder $$(find $$folder -maxdepth 1 -type f); done
	install -D -m 755 scripts/setup $(SHARE_DIR)/scripts/setup
	git rev-parse --short HEAD >$(SHARE_DIR)/commit 2>/dev/null || echo '$(VERSION)' >$(SHARE_DIR)/commit
	printf '#!/bin/sh\nexec %s -B %s/lab/lab.py --bin %s --out "$${XDG_DATA_HOME:-$$HOME/.local/share}/rung/lab" "$$@"\n' \
	    '$(PYTHON)' '$(PREFIX)/share/rung' '$(PREFIX)/lib/rung' >$(BIN_DIR)/rung-lab
	chmod 755 $(BIN_DIR)/rung-lab
	chmod 644 $(SHARE_DIR)/commit

uninstall: ## remove what install has installed
	rm -f $(INSTALLED:%=$(BIN_DIR)/%) $(BIN_DIR)/rung-lab $(COMPLETIONS) \
	    $(PAGES:%=$(MAN_DIR)/%.1) $(ON_RUNGS_PAGE:%=$(MAN_DIR)/rung-%.1) $(UNITS:%=$(UNIT_DIR)/%)
	rm -rf $(SHARE_DIR) $(LIB_DIR)

# --- Rules ------------------------------------------------------------------------------------------------

# A file's text on one line, nothing if there is no file.  GNU make 4.3 may leave the newline at the end.
content = $(strip $(if $(wildcard $(1)),$(file <$(1))))
# Writes a line to the target if its text differs: first to a file of its own, then by a rename, because several makes may
# do so at the same time.
tell = @echo '$(1)' | cmp -s - $@ || { echo '$(1)' >$@.$$$$ && mv -f $@.$$$$ $@; }

# Warnings are kept in OBJECT.warned, so that WERROR=1 finds those of an earlier build too and compiles them again.
compile = $(Q)$(CC) $(if $(MAKE_TERMERR),-fdiagnostics-color) $(FLAGS) $(1) -I$(G) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $< \
    2>$@.warned; status=$$?; cat $@.warned >&2; [ -s $@.warned ] || rm -f $@.warned; exit $$status
ifeq ($(WERROR),1)
WARNED := $(if $(wildcard $(O)),$(patsubst %.warned,%,$(shell find $(O) -name '*.o.warned')))
$(if $(WARNED),$(eval $(WARNED): FORCE))
endif

$(O)/core/%.o: core/%.c Makefile $(PROFILE) | $(GEN)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(call compile,$(CORE))

$(O)/%.o: %.c Makefile $(PROFILE) | $(GEN)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(call compile,$(HOSTED))

# The functions of this file are top-level assembler, which link-time optimisation does not see.
$(O)/base/coro_$(MACHINE).o: FLAGS += $(if $(filter lto,$(WAYS)),-fno-lto)

# The profile of release-pgo: a counting build of the same sources and options runs the load of scripts/train.  gcc looks
# for an object's counts next to the object.
ifneq ($(PROFILE),)
TRAIN := $(subst -pgo,-train,$(MODE))
$(PROFILE): scripts/train $(LIB_SRC) $(MAIN) $(wildcard core/*.[hd]* base/*.[hd]* server/*.[hd]* engines/*.[hd]*) Makefile
	@mkdir -p $(@D)
	$(call say,TRAIN,$@)
	$(Q)$(MAKE) --no-print-directory MODE=release $(BUILD)/release/rung-load
	$(Q)$(MAKE) --no-print-directory MODE=$(TRAIN) $(BUILD)/$(TRAIN)/rung
	$(Q)find $(BUILD)/$(TRAIN) $(O) -name '*.gcda' -delete
	$(Q)$(PYTHON) -B scripts/train $(BUILD)/$(TRAIN)/rung $(BUILD)/release/rung-load
	$(Q)cd $(BUILD)/$(TRAIN) && find . -name '*.gcda' -exec cp --parents {} $(abspath $(O)) \;
	$(Q)touch $@
endif

$(LIB): $(call objects,$(LIB_SRC)) $(O)/lib.list
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcsD $@ $(filter %.o,$^)

WITHOUT := $(if $(PROBES),,'its trace points' systemtap-sdt-dev) $(if $(TLS),,https libssl-dev) $(if $(QR),,'QR codes' libqrencode-dev) \
    $(if $(H2),,HTTP/2 libnghttp2-dev) $(if $(ARCHIVE),,--archive 'libarchive-dev zlib1g-dev') $(if $(MARKDOWN),,Markdown libcmark-dev)
# Changes when a source file is added or removed, so that the library drops the removed ones.
$(O)/lib.list: FORCE
	@mkdir -p $(@D)
	$(if $(strip $(WITHOUT)),@printf 'make: rung is built without %s: apt-get install %s\n' $(WITHOUT) >&2)
	$(call tell,$(LIB_SRC))
.PHONY: FORCE

$(RUNG): $(call objects,$(MAIN)) $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# --user is looked up in /etc/passwd without a library; the linker's warning is about other sources of users (NSS).
# Debian has no static libqrencode, and nothing is loaded into this program: their places are taken before the library is searched.
$(STATIC): $(call objects,$(MAIN)) $(O)/server/qr_absent.o $(O)/server/pack_absent.o $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(filter-out -pie $(QUICK_LINKER),$(LINK)) -static-pie -s $(LDFLAGS) -o $@ $^ $(filter-out -lqrencode -lz,$(LDLIBS)) \
	    $(if $(filter br,$(COMPRESSORS)),-lbrotlicommon) -lm 2>$@.said; status=$$?; \
	    grep -v 'in statically linked applications\|: in function' $@.said >&2; exit $$status

$(O)/rung.oci.tar: $(STATIC) scripts/image
	$(call say,IMAGE,$@)
	$(Q)scripts/image $(STATIC) $@

# rung-load uses base/ and core/ of the library and nothing else (tests/tidy.py).
$(LOAD): $(call objects,$(LOAD_SRC)) $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LINK) $(LDFLAGS) -o $@ $^ -lm $(if $(TLS),-lssl -lcrypto) $(if $(H2),-lnghttp2)

$(DROP): $(call objects,$(DROP_SRC)) $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LINK) $(LDFLAGS) -o $@ $^ -lmnl

# rung-trace contains its programs for the kernel (tools/trace/object.c).
BPF_OBJECTS := $(patsubst %.c,$(O)/%.o,$(wildcard tools/trace/*.bpf.c))
$(BPF_OBJECTS): $(O)/%.o: %.c tools/trace/event.h tools/trace/kern.h tools/trace/probes.h tools/trace/calls.h Makefile
	@mkdir -p $(@D)
	$(call say,BPF,$@)
	$(Q)$(BPF_CC) -target bpf -O2 -g -Wall -Wextra -Wno-unused-parameter $(if $(filter 1,$(WERROR)),-Werror) \
	    -fdebug-prefix-map=$(CURDIR)=. -D__TARGET_ARCH_$(if $(filter x86_64,$(MACHINE)),x86,$(MACHINE:aarch64=arm64)) \
	    -I/usr/include/$(shell $(CC) -print-multiarch) -c -o $@ $<
$(O)/tools/trace/object.o: $(BPF_OBJECTS)
$(O)/tools/trace/object.o: CPPFLAGS += -DTRACE_OBJECT='"$(O)/tools/trace/trace.bpf.o"' -DSNIFF_OBJECT='"$(O)/tools/trace/sniff.bpf.o"'

# Reports at each make what the tracer is built without, and changes when its sources do.
$(O)/trace.list: FORCE
	@mkdir -p $(@D)
	$(if $(TRACER),,@echo 'make: rung trace is built without tracing and sniffing: apt-get install clang libbpf-dev' >&2)
	$(if $(UNWINDER),,@echo 'make: rung trace --stacks is built without the functions of programs: apt-get install libdw-dev' >&2)
	$(call tell,$(TRACE_SRC))

$(TRACE): $(call objects,$(TRACE_SRC)) $(LIB) $(O)/trace.list
	$(call say,LINK,$@)
	$(Q)$(CC) $(LINK) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(if $(TRACER),-lbpf) $(if $(UNWINDER),-ldw) -lm

# The folder of a lab program may have its own linker flags in ldflags, additional include folders in cppflags, and headers
# that it does not require in optional: its objects are compiled again when one of those is installed or removed.
define lab_program
$(O)/lab/$(1).optional: FORCE
	@mkdir -p $$(@D)
	$$(call tell,$$(wildcard $(call content,lab/programs/$(1)/optional)))
$(patsubst %.c,$(O)/%.o,$(wildcard lab/programs/$(1)/*.c)): CPPFLAGS += $(call content,lab/programs/$(1)/cppflags)
$(patsubst %.c,$(O)/%.o,$(wildcard lab/programs/$(1)/*.c)): $(O)/lab/$(1).optional
$(O)/lab/$(1): $(patsubst %.c,$(O)/%.o,$(wildcard lab/programs/$(1)/*.c)) $(LIB) $(wildcard lab/programs/$(1)/ldflags)
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)
	$$(Q)$$(CC) $$(LINK) $$(LDFLAGS) -o $$@ $$(filter %.o %.a,$$^) $$(call content,$$(filter %/ldflags,$$^)) $$(LDLIBS)
endef
$(foreach name,$(LAB_NAMES),$(eval $(call lab_program,$(name))))

# rung lab: the lab of these sources, measuring these binaries.
$(O)/rung-lab: Makefile
	@mkdir -p $(@D)
	$(Q)printf '#!/bin/sh\nexec %s -B %s/lab/lab.py --bin %s --out %s "$$@"\n' '$(PYTHON)' '$(CURDIR)' \
	    '$(abspath $(O))' '$(abspath $(BUILD))/lab' >$@ && chmod +x $@

# How the test programs are linked; a tree without tests builds all the same.
include $(wildcard tests/programs.mk)

# The system calls of the target machine.
$(G)/system_calls.h: Makefile
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)echo '#include <sys/syscall.h>' | $(CC) $(CPPFLAGS) -E -dM -x c - \
	    | sed -n 's/^#define __NR_\([a-z0-9_]*\) .*/CALL(\1)/p' | grep -v '(syscalls)\|(arch_specific_syscall)' | LC_ALL=C sort >$@
$(O)/tools/trace/calls.o: $(G)/system_calls.h

$(G)/mime_types.h: scripts/gen-types.py core/mime.def $(wildcard /etc/mime.types)
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)$(PYTHON) scripts/gen-types.py >$@

# Reports at each make which codings are missing, and changes when a header is installed or removed.
$(CODERS): FORCE
	@mkdir -p $(@D)
	$(if $(MISSING),@echo 'make: not compressed on the way: $(MISSING); scripts/setup run installs what that needs' >&2)
	$(call tell,$(foreach name,$(COMPRESSORS),X($(name))))

$(O)/server/compress.o: $(CODERS)

# For editors: clangd looks in build/ by itself.
$(BUILD)/compile_commands.json: Makefile $(O)/lib.list
	@mkdir -p $(@D)
	@{ sep='['; for src in $(ALL_SRC); do printf '%s\n{"directory": "%s", "file": "%s", "command": "%s"}' \
	    "$$sep" '$(CURDIR)' "$$src" "$(CC) $(FLAGS) -I$(G) -c $$src"; sep=','; done; printf '\n]\n'; } >$@

-include $(patsubst %.c,$(O)/%.d,$(ALL_SRC))
