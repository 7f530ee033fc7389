/* table.h: rows of the stand-in driver: every name in tbl/cuda_symbols.h. */
#ifndef STANDIN_TABLE_H
#define STANDIN_TABLE_H

#include "standin.h"

enum standin_row {
#define CU_GATE(since, name, ...) ROW_##name,
#define CU_AFTER(kind, since, name, ...) ROW_##name,
#define CU_BEFORE(kind, since, name, ...) ROW_##name,
#define CU_AROUND(kind, since, name, ...) ROW_##name,
#define CU_OWN(kind, since, name, ...) ROW_##name,
#define CU_NEED(since, name, ...) ROW_##name,
#define CU_PASS(kind, name) ROW_##name,
#include "../../tbl/cuda_symbols.h"
    ROWS
};

struct standin_entry {
    const char *name;
    int since;
    void *function;
};
extern const struct standin_entry standin_table[ROWS];
extern uint64_t standin_counts[ROWS];
extern CUresult standin_answers[ROWS];

/* Counts a call of the row; what it has been told to answer. */
static inline CUresult standin_called(enum standin_row row)
{
#ifdef STANDIN_BENCH
    (void)row;
    return CUDA_SUCCESS;
#else
    __atomic_fetch_add(&standin_counts[row], 1, __ATOMIC_RELAXED);
    return __atomic_load_n(&standin_answers[row], __ATOMIC_RELAXED);
#endif
}

#endif
