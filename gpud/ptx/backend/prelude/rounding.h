/* Directed rounding. Single precision: the exact value is known as a double and the sign of what that double misses.
 * Double precision: the processor's rounding mode, set around the operation. */
#define GP_RZ 0
#define GP_RM 1
#define GP_RP 2

float nextafterf(float x, float y);

/* Rounds d + e, |e| at most half a last place of d, to single precision. */
static inline float gp_round_f32(double d, double e, int mode)
{
    float f = (float)d;
    if (!__builtin_isfinite(d))
        return f;
    int above = (double)f > d || ((double)f == d && e < 0);   /* f is above the exact value */
    int below = (double)f < d || ((double)f == d && e > 0);
    int exact_negative = d < 0 || (d == 0 && e < 0);
    int down = mode == GP_RM || (mode == GP_RZ && !exact_negative);
    if (down && above)
        return nextafterf(f, -__builtin_inff());
    if (!down && below)
        return nextafterf(f, __builtin_inff());
    return f;
}

/* The exact sum a + b as a double and its error. */
static inline float gp_sum_f32(double a, double b, int mode)
{
    double d = a + b, back = d - a;
    double e = (a - (d - back)) + (b - back);
    if (d == 0 && a != 0)
        return mode == GP_RM ? -0.0f : 0.0f;
    if (d == 0 && a == 0 && b == 0 && __builtin_signbit(a) != __builtin_signbit(b))
        return mode == GP_RM ? -0.0f : 0.0f;
    return gp_round_f32(d, e, mode);
}
static inline float gp_add_f32(float a, float b, int mode) { return gp_sum_f32(a, b, mode); }
static inline float gp_sub_f32(float a, float b, int mode) { return gp_sum_f32(a, -(double)b, mode); }
static inline float gp_mul_f32(float a, float b, int mode) { return gp_round_f32((double)a * b, 0, mode); }
static inline float gp_fma_f32(float a, float b, float c, int mode) { return gp_sum_f32((double)a * b, c, mode); }
static inline float gp_div_f32(float a, float b, int mode)
{
    double q = (double)a / b;
    double rest = __builtin_fma(-q, b, a);
    return gp_round_f32(q, b < 0 ? -rest : rest, mode);
}
static inline float gp_sqrt_f32(float a, int mode)
{
    double root = __builtin_sqrt((double)a);
    return gp_round_f32(root, __builtin_fma(-root, root, a), mode);
}

int fegetround(void);
int fesetround(int mode);
#if defined(__x86_64__)
#define GP_MODE(mode) ((mode) == GP_RZ ? 0xc00 : (mode) == GP_RM ? 0x400 : 0x800)
#elif defined(__aarch64__)
#define GP_MODE(mode) ((mode) == GP_RZ ? 0xc00000 : (mode) == GP_RM ? 0x800000 : 0x400000)
#else
#error "directed rounding of doubles is not known for this processor"
#endif

/* The volatiles keep the operation between the two changes of mode. */
#define GP_DIRECTED(name, params, loads, type, expression) \
    static __attribute__((noinline, unused)) type name params \
    { \
        loads; \
        int before = fegetround(); \
        fesetround(GP_MODE(mode)); \
        volatile type result = (type)(expression); \
        fesetround(before); \
        return result; \
    }
GP_DIRECTED(gp_add_f64, (double a, double b, int mode), volatile double x = a; volatile double y = b, double, x + y)
GP_DIRECTED(gp_sub_f64, (double a, double b, int mode), volatile double x = a; volatile double y = b, double, x - y)
GP_DIRECTED(gp_mul_f64, (double a, double b, int mode), volatile double x = a; volatile double y = b, double, x * y)
GP_DIRECTED(gp_div_f64, (double a, double b, int mode), volatile double x = a; volatile double y = b, double, x / y)
GP_DIRECTED(gp_sqrt_f64, (double a, int mode), volatile double x = a, double, __builtin_sqrt(x))
GP_DIRECTED(gp_fma_f64, (double a, double b, double c, int mode), volatile double x = a; volatile double y = b; volatile double z = c,
    double, __builtin_fma(x, y, z))
GP_DIRECTED(gp_cvt_f64_s64, (int64_t a, int mode), volatile int64_t x = a, double, x)
GP_DIRECTED(gp_cvt_f64_u64, (uint64_t a, int mode), volatile uint64_t x = a, double, x)
GP_DIRECTED(gp_cvt_f32_s64, (int64_t a, int mode), volatile int64_t x = a, float, x)
GP_DIRECTED(gp_cvt_f32_u64, (uint64_t a, int mode), volatile uint64_t x = a, float, x)
