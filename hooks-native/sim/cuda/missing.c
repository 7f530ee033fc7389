/* missing.c: every entry point that nothing else defines. It answers NOT_SUPPORTED and says so once, by name: never a silent
 * success. The definitions are weak, so a real one elsewhere in the library replaces them at link time. */
#include "sim.h"

enum {
#define SYMBOL(name, symbol, version, twin) INDEX_##symbol,
#include "symbols.h"
#undef SYMBOL
    COUNT
};

static _Atomic bool said[COUNT];

static CUresult missing(int index, const char *symbol) {
    if (!atomic_exchange(&said[index], true))
        sim_say("%s is not simulated: CUDA_ERROR_NOT_SUPPORTED", symbol);
    return CUDA_ERROR_NOT_SUPPORTED;
}

#define SYMBOL(name, symbol, version, twin) \
    __attribute__((weak, visibility("default"))) CUresult symbol(void); \
    CUresult symbol(void) { return missing(INDEX_##symbol, #symbol); }
#include "symbols.h"
