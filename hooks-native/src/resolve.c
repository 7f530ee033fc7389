/* resolve.c: look-ups. The real one is asked first; if what it answers is a driver's pointer that we intercept, our entry is handed
 * out in its place. Looking entries up starts nothing: the keeper comes with the first real call. */
#define _GNU_SOURCE
#include "resolve.h"

#include <dlfcn.h>
#include <string.h>

#include "classify.h"
#include "entry.h"
#include "pointers.h"
#include "real.h"

/* The resolvers themselves: if a driver answers with a pointer of theirs that nobody has seen, everything behind it would
 * be lost, so here the name decides, and the version the ABI: from 12000 on it has five parameters. */
static void *mapped(void *pointer, const char *symbol, int version)
{
    void *entry = gpud_pointer_mapped(pointer, NULL);

    if (entry != pointer || !symbol || strcmp(symbol, "cuGetProcAddress") != 0)
        return entry;
    return version >= 12000 ? (void *)handed_cuGetProcAddress_v2 : (void *)handed_cuGetProcAddress;
}

static bool ready(void)
{
    gpud_remember_environment();
    return gpud_real_resolve(true) && !gpud_disabled;
}

#define RESOLVER(entry, next_table)                                                                                   \
    CUresult entry(const char *symbol, void **function, int version, cuuint64_t flags)                                \
    {                                                                                                                 \
        bool on = ready();                                                                                            \
        if (!next_table.cuGetProcAddress)                                                                             \
            return CUDA_ERROR_NO_DEVICE;                                                                              \
        CUresult result = next_table.cuGetProcAddress(symbol, function, version, flags);                              \
        if (on && result == CUDA_SUCCESS && function && *function)                                                    \
            *function = mapped(*function, symbol, version);                                                           \
        return result;                                                                                                \
    }
#define RESOLVER_V2(entry, next_table)                                                                                \
    CUresult entry(const char *symbol, void **function, int version, cuuint64_t flags,                                \
                   CUdriverProcAddressQueryResult *status)                                                            \
    {                                                                                                                 \
        bool on = ready();                                                                                            \
        if (!next_table.cuGetProcAddress_v2)                                                                          \
            return CUDA_ERROR_NO_DEVICE;                                                                              \
        CUresult result = next_table.cuGetProcAddress_v2(symbol, function, version, flags, status);                   \
        if (on && result == CUDA_SUCCESS && function && *function)                                                    \
            *function = mapped(*function, symbol, version);                                                           \
        return result;                                                                                                \
    }

RESOLVER(cuGetProcAddress, gpud_next)
RESOLVER(handed_cuGetProcAddress, real)
RESOLVER_V2(cuGetProcAddress_v2, gpud_next)
RESOLVER_V2(handed_cuGetProcAddress_v2, real)

/* Fails as dlsym fails: asked from here, RTLD_NEXT leaves our own export out, and the message is the loader's. */
static void *absent(const char *name)
{
    void *pointer = gpud_libc_dlsym(RTLD_NEXT, name);

    __asm__ volatile("" : "+r"(pointer));      /* or the call becomes a jump, and RTLD_NEXT begins at our caller */
    return pointer;
}

void *gpud_dlsym_handle(void *handle, const char *name)
{
    void *pointer = gpud_next_dlsym(handle, name);

    /* Not there: the loader's message must stay. Nor is a driver loaded for the sake of a look-up elsewhere. */
    if (!pointer)
        return NULL;
    if (pointer == gpud_entries[gpud_row_of(name)].exported)    /* a handle that sees global symbols: dlopen(NULL) */
        return gpud_anywhere(name) ? pointer : absent(name);
    return gpud_real_resolve(false) ? gpud_pointer_mapped(pointer, name) : pointer;
}

bool gpud_anywhere(const char *name)
{
    void *own = gpud_entries[gpud_row_of(name)].exported;
    bool there = gpud_libc_dlsym(RTLD_DEFAULT, name) != own || gpud_libc_dlsym(RTLD_NEXT, name);

    dlerror();
    return there;
}

void *gpud_dlsym_local(void *handle, const char *name)
{
    Dl_info caller;
    void *pointer = NULL;

    (void)handle;
    /* Jumped to by the thunk, so this is the caller of dlsym. */
    if (dladdr(__builtin_return_address(0), &caller) && caller.dli_fname) {
        void *object = dlopen(caller.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        if (object) {
            pointer = gpud_libc_dlsym(object, name);
            dlclose(object);
        }
    }
    if (!pointer || pointer == gpud_entries[gpud_row_of(name)].exported)
        return absent(name);
    return gpud_real_resolve(false) ? gpud_pointer_mapped(pointer, name) : pointer;
}
