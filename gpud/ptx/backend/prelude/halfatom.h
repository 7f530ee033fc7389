/* Atomic addition in the 16-bit formats. */
#define GP_HALF_ATOM(kind, bits, add) \
    static inline bits gp_atom_add_##kind(uint64_t at, bits v) \
    { \
        bits seen = __atomic_load_n((bits *)at, __ATOMIC_RELAXED); \
        while (!__atomic_compare_exchange_n((bits *)at, &seen, add(seen, v), 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) \
            ; \
        return seen; \
    } \
    static inline bits gp_block_add_##kind(uint64_t at, bits v) \
    { \
        bits old = *(bits *)at; \
        *(bits *)at = add(old, v); \
        return old; \
    }
GP_HALF_ATOM(f16, uint16_t, gp_add_f16)
GP_HALF_ATOM(bf16, uint16_t, gp_add_bf16)
GP_HALF_ATOM(f16x2, uint32_t, gp_add_f16_x2)
GP_HALF_ATOM(bf16x2, uint32_t, gp_add_bf16_x2)
