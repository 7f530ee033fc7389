/* 16-bit floating formats, carried as bits: f16 and bf16. Computed wider and rounded once. */

#ifndef GP_RZ
#define GP_RZ 0
#define GP_RM 1
#define GP_RP 2
#endif

/* Rounds to nearest even with `fraction` bits below a leading one, smallest exponent `low`; `inf` is the image of infinity. */
static uint16_t gp_narrow(double x, int fraction, int low, uint32_t inf)
{
    uint64_t bits = gp_u64(x);
    uint32_t sign = (uint32_t)(bits >> 48) & 0x8000u;
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    if (x != x)
        return 0x7fff;
    if (__builtin_isinf(x))
        return (uint16_t)(sign | inf);
    if (exponent < low)
        exponent = low;
    double scaled = __builtin_fabs(x) * gp_f64((uint64_t)(1023 + fraction - exponent) << 52);
    uint32_t image = ((uint32_t)(exponent - low) << fraction) + (uint32_t)__builtin_rint(scaled);
    return (uint16_t)(sign | (image > inf ? inf : image));
}
static inline uint16_t gp_to_f16_f64(double x) { return gp_narrow(x, 10, -14, 0x7c00); }
static inline uint16_t gp_to_bf16_f64(double x) { return gp_narrow(x, 7, -126, 0x7f80); }
static inline uint16_t gp_to_f16(float x) { return gp_to_f16_f64(x); }
static inline uint16_t gp_to_bf16(float x) { return gp_to_bf16_f64(x); }

static inline float gp_from_bf16(uint16_t a) { return gp_f32((uint32_t)a << 16); }
static float gp_from_f16(uint16_t a)
{
    uint32_t sign = (uint32_t)(a & 0x8000) << 16, exponent = a >> 10 & 31, fraction = a & 0x3ff;
    if (exponent == 31)
        return gp_f32(sign | 0x7f800000u | fraction << 13);
    float size = exponent ? gp_f32((exponent + 112) << 23 | fraction << 13) : (float)fraction * 0x1p-24f;
    return sign ? -size : size;
}

/* Directed rounding: the step from what rounding to nearest gave, where that lies on the wrong side. */
static uint16_t gp_step(uint16_t h, double found, double x, int mode)
{
    int down = mode == GP_RM || (mode == GP_RZ && x > 0), wrong = down ? found > x : found < x;
    if (!wrong || x != x || __builtin_isinf(x))
        return h;
    if ((h & 0x7fff) == 0)
        return down ? 0x8001 : 0x0001;
    return (uint16_t)((h >> 15) == (uint16_t)down ? h + 1 : h - 1);
}
static inline uint16_t gp_toward_f16(double x, int mode)
{
    uint16_t h = gp_to_f16_f64(x);
    return gp_step(h, gp_from_f16(h), x, mode);
}
static inline uint16_t gp_toward_bf16(double x, int mode)
{
    uint16_t h = gp_to_bf16_f64(x);
    return gp_step(h, gp_from_bf16(h), x, mode);
}

/* a × b + c, kept odd in its last place where inexact, so that rounding again is rounding once. */
static double gp_fma_odd(double a, double b, double c)
{
    double p = a * b, d = p + c, back = d - p;
    double e = (p - (d - back)) + (c - back);
    uint64_t bits = gp_u64(d);
    if (e == 0 || !__builtin_isfinite(d) || (bits & 1))
        return d;
    return gp_f64((e > 0) == (d > 0) ? bits + 1 : bits - 1);
}

#define GP_HALF_PAIRS(name) \
    static inline uint32_t gp_##name##_x2(uint32_t a, uint32_t b) \
    { \
        return (uint32_t)gp_##name((uint16_t)(a >> 16), (uint16_t)(b >> 16)) << 16 | gp_##name((uint16_t)a, (uint16_t)b); \
    }
#define GP_HALF_BINARY(name, expression, kind) \
    static inline uint16_t gp_##name##_##kind(uint16_t x, uint16_t y) \
    { \
        float a = gp_from_##kind(x), b = gp_from_##kind(y); \
        return gp_to_##kind(expression); \
    } \
    GP_HALF_PAIRS(name##_##kind)
#define GP_HALF(kind) \
    GP_HALF_BINARY(add, a + b, kind) \
    GP_HALF_BINARY(sub, a - b, kind) \
    GP_HALF_BINARY(mul, a * b, kind) \
    GP_HALF_BINARY(min, gp_min_f32(a, b), kind) \
    GP_HALF_BINARY(max, gp_max_f32(a, b), kind) \
    GP_HALF_BINARY(min_nan, gp_min_nan_f32(a, b), kind) \
    GP_HALF_BINARY(max_nan, gp_max_nan_f32(a, b), kind) \
    static inline uint16_t gp_fma_##kind(uint16_t a, uint16_t b, uint16_t c) \
    { \
        return gp_to_##kind##_f64(gp_fma_odd(gp_from_##kind(a), gp_from_##kind(b), gp_from_##kind(c))); \
    } \
    static inline uint32_t gp_fma_##kind##_x2(uint32_t a, uint32_t b, uint32_t c) \
    { \
        return (uint32_t)gp_fma_##kind((uint16_t)(a >> 16), (uint16_t)(b >> 16), (uint16_t)(c >> 16)) << 16 \
            | gp_fma_##kind((uint16_t)a, (uint16_t)b, (uint16_t)c); \
    }
GP_HALF(f16)
GP_HALF(bf16)
