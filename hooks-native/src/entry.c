/* entry.c: the constructor only remembers; everything starts at the first CUDA call. */
#include "entry.h"

#include <stdatomic.h>
#include <sys/types.h>
#include <unistd.h>

#include "launch.h"
#include "real.h"

int gpud_live;
int gpud_hookless;
__thread int gpud_inside;

bool gpud_first_call(void)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;

    gpud_remember();
    gpud_remember_environment();
    if ((!gpud_hookless && !gpud_real_resolve(true)) || gpud_disabled)
        return false;
    if (gpud_disable_is_garbage && !atomic_flag_test_and_set(&told)) {
        static const char line[] = "gpud: GPUD_DISABLE is neither 0 nor 1 and is ignored: set it to 1 to bypass gpud\n";
        ssize_t ignored = write(STDERR_FILENO, line, sizeof line - 1);
        (void)ignored;
    }
    if (gpud_inside)        /* whoever is called while we start came back through a symbol of ours */
        return false;
    gpud_inside = 1;
    gpud_start();
    gpud_inside = 0;
    __atomic_store_n(&gpud_live, 1, __ATOMIC_RELEASE);
    return true;
}

__attribute__((constructor)) static void constructor(void)
{
    gpud_remember();
    gpud_remember_environment();
}
