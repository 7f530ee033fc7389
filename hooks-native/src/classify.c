/* classify.c: where does this dlsym go? Built without sanitizers, coverage and builtins, and calls no libc: it runs inside other
 * libraries' constructors, inside malloc replacements, in processes that never touch CUDA. */
#include "classify.h"
#include "entry.h"

#define RTLD_NEXT_HANDLE ((void *)-1L)      /* as in dlfcn.h */
#define RTLD_DEFAULT_HANDLE ((void *)0)

/* 0 if the two are equal. */
static int differ(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a != *b;
}

/* nvmlDeviceGetMemoryInfo, by whatever version. */
static int is_nvml_memory(const char *name)
{
    const char *begin = "nvmlDeviceGetMemoryInfo";

    while (*begin && *begin == *name)
        begin++, name++;
    return !*begin;
}

int gpud_row_of(const char *name)
{
    for (int row = 0; row < gpud_row_count; row++)
        if (!differ(gpud_row_names[row], name))
            return row;
    return -1;
}

void *gpud_classify(void *handle, const char *name, uintptr_t caller)
{
    gpud_dlsym_fn *next = __atomic_load_n(&gpud_next_dlsym, __ATOMIC_ACQUIRE);

    if (__builtin_expect(!next, 0)) {
        gpud_remember();
        next = gpud_next_dlsym;
    }
    if (__builtin_expect(caller >= gpud_next_dlsym_begin && caller < gpud_next_dlsym_end, 0))
        next = gpud_libc_dlsym;
    if (name && name[0] == 'n' && handle != RTLD_NEXT_HANDLE && is_nvml_memory(name)) {
        if (!__atomic_load_n(&gpud_environment_known, __ATOMIC_ACQUIRE))
            gpud_remember_environment();
        return gpud_disabled ? (void *)next : (void *)gpud_dlsym_nvml;
    }
    if (!name || name[0] != 'c' || name[1] != 'u' || name[2] < 'A' || name[2] > 'Z')
        return (void *)next;
    if (!__atomic_load_n(&gpud_environment_known, __ATOMIC_ACQUIRE))
        gpud_remember_environment();
    if (handle == RTLD_NEXT_HANDLE || gpud_disabled || gpud_row_of(name) < 0)
        return (void *)next;
    if (handle == RTLD_DEFAULT_HANDLE)
        return gpud_anywhere(name) ? (void *)next : (void *)gpud_dlsym_local;
    return (void *)gpud_dlsym_handle;
}
