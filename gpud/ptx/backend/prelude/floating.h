/* Floating point with the corner cases of PTX: denormals as zero on request, NaN in min and max, saturating conversions. */

static inline float gp_ftz(float x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x; }
static inline double gp_ftz_f64(double x) { return __builtin_fabs(x) < 0x1p-1022 ? __builtin_copysign(0.0, x) : x; }
static inline uint8_t gp_ordered_ne(double a, double b) { return a < b || a > b; }
static inline float gp_rsqrt_f32(float x) { return (float)(1.0 / __builtin_sqrt((double)x)); }
static inline double gp_rsqrt_f64(double x) { return 1.0 / __builtin_sqrt(x); }

static inline float gp_sat_f32(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }
static inline uint8_t gp_subnormal_f32(float x) { return x != 0 && __builtin_fabsf(x) < 0x1p-126f; }
/* One NaN gives the other operand, two give the canonical NaN; -0 is less than +0. */
static inline float gp_min_f32(float a, float b)
{
    if (a != a)
        return b != b ? gp_f32(0x7fffffffu) : b;
    return b != b || a < b ? a : b < a ? b : __builtin_signbit(a) ? a : b;
}
static inline float gp_max_f32(float a, float b)
{
    if (a != a)
        return b != b ? gp_f32(0x7fffffffu) : b;
    return b != b || a > b ? a : b > a ? b : __builtin_signbit(a) ? b : a;
}
static inline float gp_min_nan_f32(float a, float b) { return a != a || b != b ? gp_f32(0x7fffffffu) : gp_min_f32(a, b); }
static inline float gp_max_nan_f32(float a, float b) { return a != a || b != b ? gp_f32(0x7fffffffu) : gp_max_f32(a, b); }

static inline double gp_sat_f64(double x) { return x > 0 ? (x < 1 ? x : 1) : 0; }
static inline uint8_t gp_subnormal_f64(double x) { return x != 0 && __builtin_fabs(x) < 0x1p-1022; }
/* One NaN gives the other operand, two give the canonical NaN; -0 is less than +0. */
static inline double gp_min_f64(double a, double b)
{
    if (a != a)
        return b != b ? gp_f64(UINT64_C(0x7fffffffffffffff)) : b;
    return b != b || a < b ? a : b < a ? b : __builtin_signbit(a) ? a : b;
}
static inline double gp_max_f64(double a, double b)
{
    if (a != a)
        return b != b ? gp_f64(UINT64_C(0x7fffffffffffffff)) : b;
    return b != b || a > b ? a : b > a ? b : __builtin_signbit(a) ? b : a;
}
static inline double gp_min_nan_f64(double a, double b) { return a != a || b != b ? gp_f64(UINT64_C(0x7fffffffffffffff)) : gp_min_f64(a, b); }
static inline double gp_max_nan_f64(double a, double b) { return a != a || b != b ? gp_f64(UINT64_C(0x7fffffffffffffff)) : gp_max_f64(a, b); }

/* To whole numbers: out of range gives the nearest end; NaN gives 0, or the top bit where a side has 64 bits. */
static inline uint8_t gp_to_u8_f32(float x) { return x != x ? 0 : x >= 0x1p8f ? UINT8_MAX : x <= 0.0f ? 0 : (uint8_t)x; }
static inline uint16_t gp_to_u16_f32(float x) { return x != x ? 0 : x >= 0x1p16f ? UINT16_MAX : x <= 0.0f ? 0 : (uint16_t)x; }
static inline uint32_t gp_to_u32_f32(float x) { return x != x ? 0 : x >= 0x1p32f ? UINT32_MAX : x <= 0.0f ? 0 : (uint32_t)x; }
static inline uint64_t gp_to_u64_f32(float x) { return x != x ? (uint64_t)((uint64_t)1 << 63) : x >= 0x1p64f ? UINT64_MAX : x <= 0.0f ? 0 : (uint64_t)x; }
static inline int8_t gp_to_s8_f32(float x) { return x != x ? 0 : x >= 0x1p7f ? INT8_MAX : x <= -0x1p7f ? INT8_MIN : (int8_t)x; }
static inline int16_t gp_to_s16_f32(float x) { return x != x ? 0 : x >= 0x1p15f ? INT16_MAX : x <= -0x1p15f ? INT16_MIN : (int16_t)x; }
static inline int32_t gp_to_s32_f32(float x) { return x != x ? 0 : x >= 0x1p31f ? INT32_MAX : x <= -0x1p31f ? INT32_MIN : (int32_t)x; }
static inline int64_t gp_to_s64_f32(float x) { return x != x ? (int64_t)((uint64_t)1 << 63) : x >= 0x1p63f ? INT64_MAX : x <= -0x1p63f ? INT64_MIN : (int64_t)x; }
static inline uint8_t gp_to_u8_f64(double x) { return x != x ? (uint8_t)((uint8_t)1 << 7) : x >= 0x1p8 ? UINT8_MAX : x <= 0.0 ? 0 : (uint8_t)x; }
static inline uint16_t gp_to_u16_f64(double x) { return x != x ? (uint16_t)((uint16_t)1 << 15) : x >= 0x1p16 ? UINT16_MAX : x <= 0.0 ? 0 : (uint16_t)x; }
static inline uint32_t gp_to_u32_f64(double x) { return x != x ? (uint32_t)((uint32_t)1 << 31) : x >= 0x1p32 ? UINT32_MAX : x <= 0.0 ? 0 : (uint32_t)x; }
static inline uint64_t gp_to_u64_f64(double x) { return x != x ? (uint64_t)((uint64_t)1 << 63) : x >= 0x1p64 ? UINT64_MAX : x <= 0.0 ? 0 : (uint64_t)x; }
static inline int8_t gp_to_s8_f64(double x) { return x != x ? (int8_t)((uint8_t)1 << 7) : x >= 0x1p7 ? INT8_MAX : x <= -0x1p7 ? INT8_MIN : (int8_t)x; }
static inline int16_t gp_to_s16_f64(double x) { return x != x ? (int16_t)((uint16_t)1 << 15) : x >= 0x1p15 ? INT16_MAX : x <= -0x1p15 ? INT16_MIN : (int16_t)x; }
static inline int32_t gp_to_s32_f64(double x) { return x != x ? (int32_t)((uint32_t)1 << 31) : x >= 0x1p31 ? INT32_MAX : x <= -0x1p31 ? INT32_MIN : (int32_t)x; }
static inline int64_t gp_to_s64_f64(double x) { return x != x ? (int64_t)((uint64_t)1 << 63) : x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? INT64_MIN : (int64_t)x; }
