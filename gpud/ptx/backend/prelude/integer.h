/* Whole-number operations with the corner cases of PTX: no trap on division, no undefined shift. */

static inline uint16_t gp_div_u16(uint16_t a, uint16_t b) { return b ? (uint16_t)(a / b) : (uint16_t)-1; }
static inline uint16_t gp_rem_u16(uint16_t a, uint16_t b) { return b ? (uint16_t)(a % b) : a; }
static inline int16_t gp_div_s16(int16_t a, int16_t b) { return b == 0 ? (int16_t)-1 : b == -1 ? (int16_t)(0 - a) : (int16_t)(a / b); }
static inline int16_t gp_rem_s16(int16_t a, int16_t b) { return b == 0 ? a : b == -1 ? (int16_t)0 : (int16_t)(a % b); }
static inline uint32_t gp_div_u32(uint32_t a, uint32_t b) { return b ? (uint32_t)(a / b) : (uint32_t)-1; }
static inline uint32_t gp_rem_u32(uint32_t a, uint32_t b) { return b ? (uint32_t)(a % b) : a; }
static inline int32_t gp_div_s32(int32_t a, int32_t b) { return b == 0 ? (int32_t)-1 : b == -1 ? (int32_t)(0 - a) : (int32_t)(a / b); }
static inline int32_t gp_rem_s32(int32_t a, int32_t b) { return b == 0 ? a : b == -1 ? (int32_t)0 : (int32_t)(a % b); }
static inline uint64_t gp_div_u64(uint64_t a, uint64_t b) { return b ? (uint64_t)(a / b) : (uint64_t)-1; }
static inline uint64_t gp_rem_u64(uint64_t a, uint64_t b) { return b ? (uint64_t)(a % b) : a; }
static inline int64_t gp_div_s64(int64_t a, int64_t b) { return b == 0 ? (int64_t)-1 : b == -1 ? (int64_t)(0 - a) : (int64_t)(a / b); }
static inline int64_t gp_rem_s64(int64_t a, int64_t b) { return b == 0 ? a : b == -1 ? (int64_t)0 : (int64_t)(a % b); }

static inline int32_t gp_sat_s32(int64_t v) { return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v; }
static inline int32_t gp_relu_s32(int32_t v) { return v < 0 ? 0 : v; }

static inline uint32_t gp_popc_u32(uint32_t a) { return (uint32_t)__builtin_popcount(a); }
static inline uint32_t gp_popc_u64(uint64_t a) { return (uint32_t)__builtin_popcountll(a); }
static inline uint32_t gp_clz_u32(uint32_t a) { return a ? (uint32_t)__builtin_clz(a) : 32; }
static inline uint32_t gp_clz_u64(uint64_t a) { return a ? (uint32_t)__builtin_clzll(a) : 64; }

static inline uint32_t gp_brev_u32(uint32_t a)
{
    a = (a >> 1 & 0x55555555u) | (a & 0x55555555u) << 1;
    a = (a >> 2 & 0x33333333u) | (a & 0x33333333u) << 2;
    a = (a >> 4 & 0x0f0f0f0fu) | (a & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(a);
}

static inline uint64_t gp_brev_u64(uint64_t a)
{
    return (uint64_t)gp_brev_u32((uint32_t)a) << 32 | gp_brev_u32((uint32_t)(a >> 32));
}

/* The highest bit that differs from the sign; all ones where there is none. */
static inline uint32_t gp_bfind_u32(uint32_t a, int amount)
{
    uint32_t at = a ? 31u - (uint32_t)__builtin_clz(a) : UINT32_MAX;
    return amount && a ? 31u - at : at;
}
static inline uint32_t gp_bfind_u64(uint64_t a, int amount)
{
    uint32_t at = a ? 63u - (uint32_t)__builtin_clzll(a) : UINT32_MAX;
    return amount && a ? 63u - at : at;
}
static inline uint32_t gp_bfind_s32(int32_t a, int amount) { return gp_bfind_u32((uint32_t)(a < 0 ? ~a : a), amount); }
static inline uint32_t gp_bfind_s64(int64_t a, int amount) { return gp_bfind_u64((uint64_t)(a < 0 ? ~a : a), amount); }

/* The n-th set bit from `base` on, upwards or downwards; all ones where there is none. */
static inline uint32_t gp_fns(uint32_t mask, uint32_t base, int32_t n)
{
    int32_t step = n < 0 ? -1 : 1, left = n < 0 ? -n : n;
    if (n == 0)
        return base < 32 && (mask >> base & 1) ? base : UINT32_MAX;
    for (int32_t at = (int32_t)base; at >= 0 && at < 32; at += step)
        if ((mask >> at & 1) && --left == 0)
            return (uint32_t)at;
    return UINT32_MAX;
}

static inline uint32_t gp_bmsk_u32(uint32_t a, uint32_t b, int clamp)
{
    if (!clamp) {
        a &= 31;
        b &= 31;
    }
    if (a > 31 || b == 0)
        return 0;
    return (b > 31 ? UINT32_MAX : (1u << b) - 1u) << a;
}

static inline uint32_t gp_szext_u32(uint32_t a, uint32_t n, int clamp)
{
    n = clamp ? (n > 32 ? 32 : n) : n & 31;
    return n == 32 ? a : a & ((1u << n) - 1u);
}
static inline int32_t gp_szext_s32(int32_t a, uint32_t n, int clamp)
{
    n = clamp ? (n > 32 ? 32 : n) : n & 31;
    return n == 0 ? 0 : (int32_t)((uint32_t)a << (32 - n)) >> (32 - n);
}

static inline uint32_t gp_bfe_u32(uint32_t a, uint32_t pos, uint32_t len)
{
    pos &= 255;
    len &= 255;
    if (pos >= 32 || len == 0)
        return 0;
    a >>= pos;
    return len >= 32 ? a : a & (((uint32_t)1 << len) - 1);
}

/* Bits beyond the end repeat the sign: of the field, or of the whole where the field passes the end. */
static inline int32_t gp_bfe_s32(int32_t a, uint32_t pos, uint32_t len)
{
    pos &= 255;
    len &= 255;
    if (len == 0)
        return 0;
    if (pos >= 32)
        return a < 0 ? -1 : 0;
    a >>= pos;
    return len >= 32 - pos ? a : (int32_t)((uint32_t)a << (32 - len)) >> (32 - len);
}

static inline uint32_t gp_bfi_u32(uint32_t a, uint32_t b, uint32_t pos, uint32_t len)
{
    pos &= 255;
    len &= 255;
    if (pos >= 32 || len == 0)
        return b;
    uint32_t mask = (len >= 32 ? ~(uint32_t)0 : ((uint32_t)1 << len) - 1) << pos;
    return (b & ~mask) | (a << pos & mask);
}

static inline uint64_t gp_bfe_u64(uint64_t a, uint32_t pos, uint32_t len)
{
    pos &= 255;
    len &= 255;
    if (pos >= 64 || len == 0)
        return 0;
    a >>= pos;
    return len >= 64 ? a : a & (((uint64_t)1 << len) - 1);
}

/* Bits beyond the end repeat the sign: of the field, or of the whole where the field passes the end. */
static inline int64_t gp_bfe_s64(int64_t a, uint32_t pos, uint32_t len)
{
    pos &= 255;
    len &= 255;
    if (len == 0)
        return 0;
    if (pos >= 64)
        return a < 0 ? -1 : 0;
    a >>= pos;
    return len >= 64 - pos ? a : (int64_t)((uint64_t)a << (64 - len)) >> (64 - len);
}

static inline uint64_t gp_bfi_u64(uint64_t a, uint64_t b, uint32_t pos, uint32_t len)
{
    pos &= 255;
    len &= 255;
    if (pos >= 64 || len == 0)
        return b;
    uint64_t mask = (len >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << len) - 1) << pos;
    return (b & ~mask) | (a << pos & mask);
}

static inline uint32_t gp_shift_wrap(uint32_t n) { return n & 31; }
static inline uint32_t gp_shift_clamp(uint32_t n) { return n > 32 ? 32 : n; }
static inline uint32_t gp_funnel_left(uint32_t a, uint32_t b, uint32_t n)
{
    return (uint32_t)(((uint64_t)b << 32 | a) << n >> 32);
}
static inline uint32_t gp_funnel_right(uint32_t a, uint32_t b, uint32_t n) { return (uint32_t)(((uint64_t)b << 32 | a) >> n); }

static inline uint32_t gp_byte(uint64_t both, uint32_t selector)
{
    uint32_t byte = (uint32_t)(both >> (selector & 7) * 8) & 255;
    return selector & 8 ? (byte & 128 ? 255 : 0) : byte;
}
static inline uint32_t gp_prmt_any(uint32_t a, uint32_t b, uint32_t c)
{
    uint64_t both = (uint64_t)b << 32 | a;
    return gp_byte(both, c & 15) | gp_byte(both, c >> 4 & 15) << 8 | gp_byte(both, c >> 8 & 15) << 16 | gp_byte(both, c >> 12 & 15) << 24;
}
/* The other modes are tables of selectors for the four low values of c. */
static inline uint32_t gp_prmt_f4e(uint32_t a, uint32_t b, uint32_t c)
{
    return gp_prmt_any(a, b, (const uint16_t[]){0x3210, 0x4321, 0x5432, 0x6543}[c & 3]);
}
static inline uint32_t gp_prmt_b4e(uint32_t a, uint32_t b, uint32_t c)
{
    return gp_prmt_any(a, b, (const uint16_t[]){0x5670, 0x6701, 0x7012, 0x0123}[c & 3]);
}
static inline uint32_t gp_prmt_rc8(uint32_t a, uint32_t b, uint32_t c)
{
    return gp_prmt_any(a, b, (const uint16_t[]){0x0000, 0x1111, 0x2222, 0x3333}[c & 3]);
}
static inline uint32_t gp_prmt_ecl(uint32_t a, uint32_t b, uint32_t c)
{
    return gp_prmt_any(a, b, (const uint16_t[]){0x3210, 0x3211, 0x3222, 0x3333}[c & 3]);
}
static inline uint32_t gp_prmt_ecr(uint32_t a, uint32_t b, uint32_t c)
{
    return gp_prmt_any(a, b, (const uint16_t[]){0x0000, 0x1110, 0x2210, 0x3210}[c & 3]);
}
static inline uint32_t gp_prmt_rc16(uint32_t a, uint32_t b, uint32_t c)
{
    return gp_prmt_any(a, b, (const uint16_t[]){0x1010, 0x3232, 0x1010, 0x3232}[c & 3]);
}

static inline int32_t gp_lane8(uint32_t a, int at, int is_signed)
{
    uint32_t byte = a >> at * 8 & 255;
    return is_signed ? (int8_t)byte : (int32_t)byte;
}
static inline uint32_t gp_dp4a(uint32_t a, uint32_t b, uint32_t c, int sa, int sb)
{
    for (int i = 0; i < 4; i++)
        c += (uint32_t)(gp_lane8(a, i, sa) * gp_lane8(b, i, sb));
    return c;
}
static inline uint32_t gp_dp2a(uint32_t a, uint32_t b, uint32_t c, int sa, int sb, int high)
{
    for (int i = 0; i < 2; i++) {
        uint32_t half = a >> i * 16 & 65535;
        int32_t left = sa ? (int16_t)half : (int32_t)half;
        c += (uint32_t)left * (uint32_t)gp_lane8(b, i + 2 * high, sb);
    }
    return c;
}

static inline uint8_t gp_clamp_u8_s(int64_t v) { return v < 0 ? 0 : (uint64_t)v > UINT8_MAX ? UINT8_MAX : (uint8_t)v; }
static inline uint8_t gp_clamp_u8_u(uint64_t v) { return v > UINT8_MAX ? UINT8_MAX : (uint8_t)v; }
static inline uint16_t gp_clamp_u16_s(int64_t v) { return v < 0 ? 0 : (uint64_t)v > UINT16_MAX ? UINT16_MAX : (uint16_t)v; }
static inline uint16_t gp_clamp_u16_u(uint64_t v) { return v > UINT16_MAX ? UINT16_MAX : (uint16_t)v; }
static inline uint32_t gp_clamp_u32_s(int64_t v) { return v < 0 ? 0 : (uint64_t)v > UINT32_MAX ? UINT32_MAX : (uint32_t)v; }
static inline uint32_t gp_clamp_u32_u(uint64_t v) { return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v; }
static inline uint64_t gp_clamp_u64_s(int64_t v) { return v < 0 ? 0 : (uint64_t)v > UINT64_MAX ? UINT64_MAX : (uint64_t)v; }
static inline uint64_t gp_clamp_u64_u(uint64_t v) { return v > UINT64_MAX ? UINT64_MAX : (uint64_t)v; }
static inline int8_t gp_clamp_s8_s(int64_t v) { return v > INT8_MAX ? INT8_MAX : v < INT8_MIN ? INT8_MIN : (int8_t)v; }
static inline int8_t gp_clamp_s8_u(uint64_t v) { return v > (uint64_t)INT8_MAX ? INT8_MAX : (int8_t)v; }
static inline int16_t gp_clamp_s16_s(int64_t v) { return v > INT16_MAX ? INT16_MAX : v < INT16_MIN ? INT16_MIN : (int16_t)v; }
static inline int16_t gp_clamp_s16_u(uint64_t v) { return v > (uint64_t)INT16_MAX ? INT16_MAX : (int16_t)v; }
static inline int32_t gp_clamp_s32_s(int64_t v) { return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v; }
static inline int32_t gp_clamp_s32_u(uint64_t v) { return v > (uint64_t)INT32_MAX ? INT32_MAX : (int32_t)v; }
static inline int64_t gp_clamp_s64_s(int64_t v) { return v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN : (int64_t)v; }
static inline int64_t gp_clamp_s64_u(uint64_t v) { return v > (uint64_t)INT64_MAX ? INT64_MAX : (int64_t)v; }
