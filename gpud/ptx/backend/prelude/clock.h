/* Clocks: nanoseconds of the host, for programs that only need time to go on. */
struct timespec_gp { long seconds, nanoseconds; };
int clock_gettime(int clock, void *time);

static uint64_t gp_clock(void)
{
    struct timespec_gp now = {0, 0};
    clock_gettime(1, &now);
    return (uint64_t)now.seconds * UINT64_C(1000000000) + (uint64_t)now.nanoseconds;
}
