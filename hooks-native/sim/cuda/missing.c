/* missing.c: every entry point that is not simulated, as tbl/sim_missing.h lists them. It answers NOT_SUPPORTED and says so once,
 * by name: never a silent success. */
#include "missing.h"

enum {
#define SIM_MISSING(group, symbol) INDEX_##symbol,
#include "../../tbl/sim_missing.h"
    COUNT
};

static CUresult say(_Atomic bool *said, const char *what) {
    if (!atomic_exchange(said, true))
        sim_say("%s is not simulated: CUDA_ERROR_NOT_SUPPORTED", what);
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult missing(int index, const char *symbol) {
    static _Atomic bool said[COUNT];
    return say(&said[index], symbol);
}

CUresult missing_part(enum missing_part part) {
    static _Atomic bool said[PARTLY_COUNT];
    static const char *const parts[] = {
#define SIM_PARTLY(id, what) what,
#include "../../tbl/sim_missing.h"
    };
    return say(&said[part], parts[part]);
}

/* "Multiple definition" of one of these: it is written now, so delete its row in tbl/sim_missing.h. */
#define SIM_MISSING(group, symbol) \
    CUresult symbol(void) __asm__("sim_do_" #symbol); \
    CUresult symbol(void) { return missing(INDEX_##symbol, #symbol); }
#include "../../tbl/sim_missing.h"
