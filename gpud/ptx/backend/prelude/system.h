/* vprintf and __assertfail, which the CUDA headers call for printf and assert. */
#include <stdio.h>
#include <string.h>

/* Takes the next argument of `bytes` bytes, aligned to them. */
static uint64_t gp_argument(uint64_t *at, uint32_t bytes)
{
    uint64_t value = 0;
    *at = (*at + bytes - 1) & ~(uint64_t)(bytes - 1);
    memcpy(&value, (const void *)*at, bytes);
    *at += bytes;
    return value;
}

/* Writes one conversion. `spec` is the part from % on without length letters, `wide` tells of l or ll. */
static void gp_print_one(char *spec, size_t length, char letter, int wide, int width, int precision, uint64_t *at)
{
    spec[length] = 0;
    if (strchr("diouxX", letter)) {
        uint64_t bits = gp_argument(at, wide ? 8 : 4);
        int is_signed = letter == 'd' || letter == 'i';
        long long value = wide ? (long long)bits : is_signed ? (long long)(int32_t)bits : (long long)(uint32_t)bits;
        memcpy(spec + length, (char[]){'l', 'l', letter, 0}, 4);
        printf(spec, width, precision, value);
        return;
    }
    memcpy(spec + length, (char[]){letter, 0}, 2);
    if (letter == 'c')
        printf(spec, width, precision, (int)gp_argument(at, 4));
    else if (letter == 's')
        printf(spec, width, precision, (const char *)gp_argument(at, 8));
    else if (letter == 'p')
        printf("%*p", width, (void *)gp_argument(at, 8));
    else
        printf(spec, width, precision, gp_f64(gp_argument(at, 8)));
}

/* printf with the arguments in memory, as the CUDA ABI lays them. Returns how many were printed. */
static int gp_vprintf(uint64_t format, uint64_t arguments)
{
    const char *p = (const char *)format;
    int printed = 0;
    flockfile(stdout);
    while (*p) {
        char spec[32] = "%";
        size_t length = 1;
        int wide = 0, width = 0, precision = -1;
        if (p[0] != '%' || p[1] == '%') {
            putchar_unlocked(*p);
            p += p[0] == '%' ? 2 : 1;
            continue;
        }
        for (p++; *p && strchr("-+ #0", *p) && length < 8; p++)
            spec[length++] = *p;
        if (*p == '*') {
            width = (int)gp_argument(&arguments, 4);
            p++;
        } else {
            for (; *p >= '0' && *p <= '9'; p++)
                width = width * 10 + (*p - '0');
        }
        if (*p == '.') {
            precision = 0;
            if (*++p == '*') {
                precision = (int)gp_argument(&arguments, 4);
                p++;
            }
            for (; *p >= '0' && *p <= '9'; p++)
                precision = precision * 10 + (*p - '0');
        }
        memcpy(spec + length, "*.*", 3);
        length += 3;
        for (; *p && strchr("hljztL", *p); p++)
            wide |= *p != 'h' && *p != 'L';
        if (!*p)
            break;
        if (strchr("diouxXcspfFeEgGaA", *p)) {
            gp_print_one(spec, length, *p, wide, width, precision, &arguments);
            printed++;
        }
        p++;
    }
    fflush(stdout);
    funlockfile(stdout);
    return printed;
}

/* Tells of a failed assertion; the caller traps. */
static void gp_assertfail(const struct gp_block *b, const struct gp_thread *t, uint64_t message, uint64_t file, uint32_t line,
    uint64_t function)
{
    fprintf(stderr, "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n", (const char *)file, line,
        (const char *)function, b->ctaid[0], b->ctaid[1], b->ctaid[2], t->tid[0], t->tid[1], t->tid[2], (const char *)message);
}
