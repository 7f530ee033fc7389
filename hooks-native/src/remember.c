/* remember.c: what the constructor remembers: is the hook disabled, and which dlsym is behind ours. Built like classify.c, without
 * sanitizers and coverage: it runs before any of them is ready. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <unistd.h>

#include "entry.h"

#if defined(__x86_64__)
#define OLDEST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OLDEST_GLIBC "GLIBC_2.17"
#else
#error "gpud's hook supports x86_64 and aarch64"
#endif

int gpud_environment_known;
int gpud_disabled;
int gpud_disable_is_garbage;
gpud_dlsym_fn *gpud_next_dlsym;
gpud_dlsym_fn *gpud_libc_dlsym;
uintptr_t gpud_next_dlsym_begin, gpud_next_dlsym_end;

/* Answers every question with "not there": only where libc itself has no dlsym. */
static void *no_dlsym(void *handle, const char *name)
{
    (void)handle, (void)name;
    return NULL;
}

/* dl_iterate_phdr: the extent of the object that holds gpud_next_dlsym. */
static int find_extent(struct dl_phdr_info *info, size_t size, void *wanted)
{
    uintptr_t begin = UINTPTR_MAX, end = 0;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        begin = from < begin ? from : begin;
        end = from + info->dlpi_phdr[i].p_memsz > end ? from + info->dlpi_phdr[i].p_memsz : end;
    }
    if ((uintptr_t)wanted < begin || (uintptr_t)wanted >= end)
        return 0;
    gpud_next_dlsym_begin = begin;
    gpud_next_dlsym_end = end;
    return 1;
}

void gpud_remember_environment(void)
{
    if (gpud_environment_known || !environ)     /* a sanitizer asks for symbols before libc has an environment */
        return;
    const char *disable = getenv("GPUD_DISABLE");
    bool word = disable && disable[0] && !disable[1];      /* one character */
    gpud_disabled = word && disable[0] == '1';
    gpud_disable_is_garbage = disable && *disable && !(word && (disable[0] == '0' || disable[0] == '1'));
    __atomic_store_n(&gpud_environment_known, 1, __ATOMIC_RELEASE);
}

void gpud_remember(void)
{
    if (__atomic_load_n(&gpud_next_dlsym, __ATOMIC_ACQUIRE))
        return;

    /* By version, so that interposers, whose dlsym has none, are passed over. Succeeds at once: dlerror is not touched and
     * nothing is allocated, which matters when a malloc replacement is the one who asks. */
    gpud_dlsym_fn *libc = (gpud_dlsym_fn *)dlvsym(RTLD_NEXT, "dlsym", OLDEST_GLIBC);
    gpud_dlsym_fn *next = libc ? (gpud_dlsym_fn *)libc(RTLD_NEXT, "dlsym") : NULL;
    gpud_libc_dlsym = libc ? libc : no_dlsym;
    next = next ? next : gpud_libc_dlsym;
    if (next != libc && next != no_dlsym)
        dl_iterate_phdr(find_extent, (void *)next);
    __atomic_store_n(&gpud_next_dlsym, next, __ATOMIC_RELEASE);
}
