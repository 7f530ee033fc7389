/* Atomic operations. gp_atom_*: other threads of the host may touch the same word; gp_block_*: only this block does. */

#define GP_ATOM(name, type, builtin) \
    static inline type gp_atom_##name(uint64_t at, type v) { return builtin((type *)at, v, __ATOMIC_SEQ_CST); }
#define GP_ATOM_LOOP(name, type, bits, next) \
    static inline type gp_atom_##name(uint64_t at, type v) \
    { \
        bits *word = (bits *)at; \
        bits seen = __atomic_load_n(word, __ATOMIC_RELAXED); \
        for (;;) { \
            union { bits image; type value; } old = {.image = seen}, new; \
            new.value = (next); \
            if (__atomic_compare_exchange_n(word, &seen, new.image, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) \
                return old.value; \
        } \
    }
#define GP_BLOCK(name, type, next) \
    static inline type gp_block_##name(uint64_t at, type v) \
    { \
        struct { type value; } old = {*(type *)at}; \
        *(type *)at = (next); \
        return old.value; \
    }

GP_ATOM(add_u32, uint32_t, __atomic_fetch_add)
GP_BLOCK(add_u32, uint32_t, old.value + v)
GP_ATOM(and_u32, uint32_t, __atomic_fetch_and)
GP_BLOCK(and_u32, uint32_t, old.value & v)
GP_ATOM(or_u32, uint32_t, __atomic_fetch_or)
GP_BLOCK(or_u32, uint32_t, old.value | v)
GP_ATOM(xor_u32, uint32_t, __atomic_fetch_xor)
GP_BLOCK(xor_u32, uint32_t, old.value ^ v)
GP_ATOM(exch_u32, uint32_t, __atomic_exchange_n)
GP_BLOCK(exch_u32, uint32_t, v)
GP_ATOM_LOOP(min_u32, uint32_t, uint32_t, old.value < v ? old.value : v)
GP_BLOCK(min_u32, uint32_t, old.value < v ? old.value : v)
GP_ATOM_LOOP(max_u32, uint32_t, uint32_t, old.value > v ? old.value : v)
GP_BLOCK(max_u32, uint32_t, old.value > v ? old.value : v)
GP_ATOM_LOOP(min_s32, int32_t, uint32_t, old.value < v ? old.value : v)
GP_BLOCK(min_s32, int32_t, old.value < v ? old.value : v)
GP_ATOM_LOOP(max_s32, int32_t, uint32_t, old.value > v ? old.value : v)
GP_BLOCK(max_s32, int32_t, old.value > v ? old.value : v)
GP_ATOM_LOOP(add_f32, float, uint32_t, old.value + v)
GP_BLOCK(add_f32, float, old.value + v)
GP_ATOM(add_u64, uint64_t, __atomic_fetch_add)
GP_BLOCK(add_u64, uint64_t, old.value + v)
GP_ATOM(and_u64, uint64_t, __atomic_fetch_and)
GP_BLOCK(and_u64, uint64_t, old.value & v)
GP_ATOM(or_u64, uint64_t, __atomic_fetch_or)
GP_BLOCK(or_u64, uint64_t, old.value | v)
GP_ATOM(xor_u64, uint64_t, __atomic_fetch_xor)
GP_BLOCK(xor_u64, uint64_t, old.value ^ v)
GP_ATOM(exch_u64, uint64_t, __atomic_exchange_n)
GP_BLOCK(exch_u64, uint64_t, v)
GP_ATOM_LOOP(min_u64, uint64_t, uint64_t, old.value < v ? old.value : v)
GP_BLOCK(min_u64, uint64_t, old.value < v ? old.value : v)
GP_ATOM_LOOP(max_u64, uint64_t, uint64_t, old.value > v ? old.value : v)
GP_BLOCK(max_u64, uint64_t, old.value > v ? old.value : v)
GP_ATOM_LOOP(min_s64, int64_t, uint64_t, old.value < v ? old.value : v)
GP_BLOCK(min_s64, int64_t, old.value < v ? old.value : v)
GP_ATOM_LOOP(max_s64, int64_t, uint64_t, old.value > v ? old.value : v)
GP_BLOCK(max_s64, int64_t, old.value > v ? old.value : v)
GP_ATOM_LOOP(add_f64, double, uint64_t, old.value + v)
GP_BLOCK(add_f64, double, old.value + v)
GP_ATOM_LOOP(inc_u32, uint32_t, uint32_t, old.value >= v ? 0 : old.value + 1)
GP_BLOCK(inc_u32, uint32_t, old.value >= v ? 0 : old.value + 1)
GP_ATOM_LOOP(dec_u32, uint32_t, uint32_t, old.value == 0 || old.value > v ? v : old.value - 1)
GP_BLOCK(dec_u32, uint32_t, old.value == 0 || old.value > v ? v : old.value - 1)
static inline uint16_t gp_atom_cas_u16(uint64_t at, uint16_t expected, uint16_t v)
{
    __atomic_compare_exchange_n((uint16_t *)at, &expected, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}
static inline uint16_t gp_block_cas_u16(uint64_t at, uint16_t expected, uint16_t v)
{
    uint16_t old = *(uint16_t *)at;
    if (old == expected)
        *(uint16_t *)at = v;
    return old;
}
static inline uint32_t gp_atom_cas_u32(uint64_t at, uint32_t expected, uint32_t v)
{
    __atomic_compare_exchange_n((uint32_t *)at, &expected, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}
static inline uint32_t gp_block_cas_u32(uint64_t at, uint32_t expected, uint32_t v)
{
    uint32_t old = *(uint32_t *)at;
    if (old == expected)
        *(uint32_t *)at = v;
    return old;
}
static inline uint64_t gp_atom_cas_u64(uint64_t at, uint64_t expected, uint64_t v)
{
    __atomic_compare_exchange_n((uint64_t *)at, &expected, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}
static inline uint64_t gp_block_cas_u64(uint64_t at, uint64_t expected, uint64_t v)
{
    uint64_t old = *(uint64_t *)at;
    if (old == expected)
        *(uint64_t *)at = v;
    return old;
}
