/* copy.c: what is behind a function or an executable graph goes, or changes. */
#include "launch.h"
#include "cost.h"
#include "sample.h"

void gpud_function_gone(const void *handle)
{
    gpud_sample_forget(handle);
    gpud_cost_forget(handle);
}

void gpud_function_changed(const void *handle)
{
    gpud_sample_forget(handle);
    gpud_cost_doubt(handle);
}
