/* test_parts.c: the profile reader, the names and the allocator, each without a device process. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "memory.h"
#include "names.h"
#include "profile.h"

static const char *shipped;
static struct profile profile;
static char directory[] = "/tmp/gpud-test-profiles-XXXXXX";

/* Reads a profile with this text; `expected` is part of the error, NULL: it is right. */
static void reads(int line, const char *text, const char *expected)
{
    char path[256], error[1024] = "";
    snprintf(path, sizeof path, "%s/case.toml", directory);
    FILE *file = fopen(path, "we");
    CHECK(file && fputs(text, file) >= 0 && !fclose(file), "cannot write %s", path);
    int result = profile_read(&profile, directory, "case", error, sizeof error);
    if (expected ? !result || !strstr(error, expected) || !strstr(error, "case.toml") : result) {
        fprintf(stderr, "%s:%d: result %d, error \"%s\", expected \"%s\"\n", __FILE__, line, result, error, expected ? expected : "none");
        exit(1);
    }
    unlink(path);
}
#define REJECTS(text, expected) reads(__LINE__, text, expected)

static uint64_t duration(const char *name)
{
    return profile_duration(profile_kernel(&profile, name), 0);
}

/* A kernel of several durations takes each of them about equally often, in an order that is no pattern and always the same. */
static void durations(void)
{
    const struct profile_kernel *kernel = profile_kernel(&profile, "decides");
    uint64_t seen[3] = { 0 }, repeats = 0, last = 0;
    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t ns = profile_duration(kernel, i);
        seen[ns == 50000 ? 0 : ns == 1000000 ? 1 : 2] += ns == 50000 || ns == 1000000 || ns == 7000000000;
        repeats += ns == last;
        last = ns;
        CHECK(ns == profile_duration(kernel, i), "the %d. launch", (int)i);
    }
    CHECK(seen[0] + seen[1] + seen[2] == 3000, "other durations than given");
    for (int i = 0; i < 3; i++)
        CHECK(seen[i] > 900 && seen[i] < 1100, "duration %d: %d of 3000", i, (int)seen[i]);
    CHECK(repeats > 900 && repeats < 1100, "repeated %d times", (int)repeats);
}

static void profiles(void)
{
    char error[1024], base[512], text[1024];
    CHECK(!profile_read(&profile, shipped, "a100-40gb", error, sizeof error), "%s", error);
    CHECK(profile.timing.sm_count == 108 && profile.timing.slice_ns == 2000000 && profile.timing.switch_ns == 760000
          && profile.info.total_bytes == 40ull << 30 && profile.info.time_scale == 1.0 && !strcmp(profile.name, "a100-40gb"), "values");
    CHECK(!profile_read(&profile, shipped, "a100-40gb-demo", error, sizeof error), "%s", error);
    CHECK(profile.timing.sm_count == 108 && profile.info.time_scale == 2.5 && !strcmp(profile.info.profile, "a100-40gb-demo"), "overlay");
    CHECK(duration("serve_step") == 2000000 && duration("short_x") == 100000
          && duration("other") == 0, "durations");

    snprintf(base, sizeof base, "%s/base.toml", directory);
    snprintf(text, sizeof text, "%s/a100-40gb.toml", shipped);
    CHECK(!symlink(text, base), "%s: %s", base, strerror(errno));
    REJECTS("base = \"base\"\n[kernels]\n\"a*\" = 1.5 # a comment\n'b\"' = 2_000\n", NULL);
    CHECK(duration("abc") == 1500000 && duration("b\"") == 2000000000, "quoted keys");
    REJECTS("base = \"base\"\n\n[timing]\nslice_ms = 0\n", "case.toml:4: timing.slice_ms: must be a number from 0.01 to 10000");
    REJECTS("base = \"base\"\n[timing]\nslice_ms = \"2\"\n", "case.toml:3: timing.slice_ms: must be a number");
    REJECTS("base = \"base\"\n[timing]\nslice_ms = 2 3\n", "case.toml:3: unexpected text after the value");
    REJECTS("base = \"base\"\n[timing]\nslice_ms = fast\n", "case.toml:3: slice_ms: a number or a \"string\" was expected, not: fast");
    REJECTS("base = \"base\"\n[timing]\nslice_ms = inf\n", "case.toml:3: slice_ms: a number");
    REJECTS("base = \"base\"\n[timing]\nslice_ms = -nan\n", "case.toml:3: timing.slice_ms: must be");
    REJECTS("base = \"base\"\n[timing]\nslice_ms =\n", "case.toml:3: slice_ms: a number or a \"string\" was expected, not: nothing");
    REJECTS("base = \"base\"\n[timing]\nslice_ms\n", "case.toml:3: slice_ms: = was expected");
    REJECTS("base = \"base\"\n[timing]\nslice_ms = 2\nslice_ms = 3\n", "case.toml:4: timing.slice_ms: given twice");
    REJECTS("base = \"base\"\n[timing]\nslize_ms = 2\n", "case.toml:3: unknown key timing.slize_ms; allowed are: time_scale, slice_ms");
    REJECTS("base = \"base\"\n[timings]\nslice_ms = 2\n", "case.toml:3: unknown table [timings]; allowed are [device], [timing], [mig], [kernels]");
    REJECTS("slice_ms = 2\n", "case.toml:1: unknown key slice_ms before the first table");
    REJECTS("base = \"base\"\n[timing\n", "case.toml:2: [timing has no closing ]");
    REJECTS("base = \"base\n", "case.toml:1: string has no closing \"");
    REJECTS("base = \"nothing\"\n", "case.toml:1: base: there is no profile nothing");
    REJECTS("base = \"case\"\n", "case.toml:1: base: more than 8 profiles above one another, or in a circle");
    REJECTS("base = \"base\"\n[kernels]\n\"decides\" = \"0.05 1  7_000\"\n", NULL);
    durations();
    REJECTS("base = \"base\"\n[kernels]\n\"x\" = \"1 2 3 4 5 6 7 8\"\n", NULL);
    REJECTS("base = \"base\"\n[kernels]\n\"x\" = \"1 2 3 4 5 6 7 8 9\"\n", "case.toml:3: kernels.x: must be a duration in ms");
    REJECTS("base = \"base\"\n[kernels]\n\"x\" = \"1,2\"\n", "case.toml:3: kernels.x: must be a duration in ms");
    REJECTS("base = \"base\"\n[kernels]\n\"x\" = \"1 0\"\n", "case.toml:3: kernels.x: must be a duration in ms");
    REJECTS("base = \"base\"\n[kernels]\n\"x\" = \"\"\n", "case.toml:3: kernels.x: must be a duration in ms");
    REJECTS("base = \"base\"\n[kernels]\n\"x\" = 0\n", "case.toml:3: kernels.x: must be a duration in ms");
    REJECTS("[device]\nsm_count = 10\n", "device.memory_gib is missing");
    REJECTS("base = \"base\"\n[device]\nmemory_gib = 0.125\n", "device.reserved_mib leaves nothing");
    REJECTS("base = \"base\"\n[device]\nmode = 3\n", "case.toml:3: mode: must be a \"string\"");
    REJECTS("base = \"base\"\n[device]\nmode = \"mig:3g,9g\"\n", "case.toml:3: device.mode: there is no MIG instance 9g;");
    REJECTS("base = \"base\"\n[mig]\nsm_7g = 109\n", "mig.sm_7g is more than device.sm_count");
    REJECTS("base = \"base\"\n[device]\nmode = \"mps\"\n", NULL);
    CHECK(profile.merged && !strcmp(profile.mode, "mps"), "mps");
    CHECK(profile_read(&profile, shipped, "nothing", error, sizeof error) && strstr(error, "nothing.toml: No such file"), "%s", error);
    unlink(base);
}

/* How contexts share a device, and what a MIG instance has of it. */
/* What is no plain file is said at once: a pipe that nobody writes to, a device without an end, a directory. */
static void no_files(void)
{
    char path[256], above[256], error[1024];
    snprintf(path, sizeof path, "%s/odd.toml", directory);
    snprintf(above, sizeof above, "%s/above.toml", directory);
    FILE *file = fopen(above, "we");
    CHECK(file && fputs("base = \"odd\"\n", file) >= 0 && !fclose(file), "cannot write %s", above);
    for (int kind = 0; kind < 3; kind++) {
        CHECK(!(kind == 0 ? mkfifo(path, 0600) : kind == 1 ? symlink("/dev/zero", path) : mkdir(path, 0700)), "cannot make %s", path);
        for (int base = 0; base < 2; base++) {
            alarm(10);
            CHECK(profile_read(&profile, directory, base ? "above" : "odd", error, sizeof error), "it was read");
            CHECK(strstr(error, kind == 2 ? "odd.toml: Is a directory" : "odd.toml: not a plain file"), "%s", error);
        }
        CHECK(!remove(path), "cannot remove %s", path);
    }
    alarm(0);
    unlink(above);
}

static void modes(void)
{
    static const char *const all[] = { "a100-40gb", "a100-40gb-demo", "h200", "test-small" };
    static const struct { const char *mode, *said; } wrong[] = {
        { "mig:3g,3g,1g", "the instances need 7 compute and 9 memory slices, and a device has 7 and 8" },
        { "mig:4g,2g,2g", "8 compute and 8 memory" }, { "mig:3g.19gb", "is called 3g.20gb on this device, not 3g.19gb" },
        { "mig:5g", "no MIG instance 5g" }, { "mig:3g,", "no MIG instance " }, { "mig:", "must be timeslice, mps, or mig:" },
        { "MPS", "must be timeslice" }, { "mig:3", "no MIG instance 3;" }, { "", "must be timeslice" },
    };
    struct sim_device_info info;
    struct sched_profile timing;
    char error[512], name[PROFILE_INSTANCE_NAME];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK(!profile_read(&profile, shipped, all[i], error, sizeof error), "%s", error);
        CHECK(!strcmp(profile.mode, "timeslice") && profile.mig_sms[7] && profile_mode(&profile, "mig:7g", error, sizeof error), "%s: %s", all[i], error);
    }
    CHECK(!profile_read(&profile, shipped, "h200", error, sizeof error), "%s", error);
    profile_instance_name(&profile, 2, name);
    CHECK(!strcmp(name, "2g.35gb"), "%s", name);
    profile_instance_name(&profile, 3, name);
    CHECK(!strcmp(name, "3g.71gb"), "%s", name);
    CHECK(!profile_read(&profile, shipped, "a100-40gb", error, sizeof error), "%s", error);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(!profile_mode(&profile, wrong[i].mode, error, sizeof error) && strstr(error, wrong[i].said), "%s: %s", wrong[i].mode, error);
    CHECK(profile_mode(&profile, "mig:3g.20gb,2g,1g", error, sizeof error) && profile.instance_count == 3 && !strcmp(profile.mode, "mig:3g,2g,1g"),
          "%s", error);
    profile_unit(&profile, 4, &info, &timing);
    CHECK(info.parent == 1 && info.mig_index == 1 && info.mig_slices == 2 && !strcmp(info.mig_name, "2g.10gb"), "%s", info.mig_name);
    CHECK(!strcmp(info.name, "gpud simulated A100-SXM4-40GB MIG 2g.10gb") && info.sm_count == 28 && info.total_bytes == 10ull << 30, "%s", info.name);
    CHECK(timing.sm_count == 28 && timing.whole_sm_count == 108 && !timing.merged, "%u SMs", timing.sm_count);
    CHECK(timing.h2d_bytes_per_us == 25000 * 2 / 7 && timing.memory_bytes_per_us == 1555000 * 2 / 8, "bandwidth");
    CHECK(profile_mode(&profile, "timeslice", error, sizeof error), "%s", error);
    profile_unit(&profile, 1, &info, &timing);
    CHECK(info.parent == 1 && !info.mig_slices && info.sm_count == 108 && info.total_bytes == 40ull << 30, "a whole device");
}

static void plain(int line, const char *mangled, const char *expected)
{
    char name[SIM_NAME];
    names_plain(mangled, name, sizeof name);
    if (strcmp(name, expected)) {
        fprintf(stderr, "%s:%d: %s became %s, expected %s\n", __FILE__, line, mangled, name, expected);
        exit(1);
    }
}
#define PLAIN(mangled, expected) plain(__LINE__, mangled, expected)

static void names(void)
{
    char text[300];
    PLAIN("_ZN6cudapy8__main__5scaleB2v1B96cw51cXTLSUwv1sCUt9Tw1VEw0NRRQPKzLTg4gaGKFsG2oMQGEYakJSQB1PQBk0Bynm21OiwU1a0UoLGhDpQE8oxrNQE_3dE"
          "5ArrayIfLi1E1C7mutable7alignedEf", "scale");
    PLAIN("_ZN6cudapy4main12_3clocals_3e9train_fwdB2v1E5ArrayIdLi1E1C7mutable7alignedE", "train_fwd");
    PLAIN("_ZN7package6module5serveE", "serve");
    PLAIN("_Z6vecaddPfS_i", "vecadd");
    PLAIN("_Z6reduceIfLi256EEvPT_", "reduce");
    PLAIN("_ZN2ns5inner6kernelIiEEvT_", "kernel");
    PLAIN("_ZN2ns3BoxIfE3runEPf", "run");
    PLAIN("_ZN3BoxIN2ns5inner1TELi3EE4stepEv", "step");
    PLAIN("_ZL6hiddenv", "hidden");
    PLAIN("plain_c", "plain_c");
    PLAIN("_Z", "_Z");
    PLAIN("_ZN", "_ZN");
    PLAIN("_Z99short", "_Z99short");
    PLAIN("_ZN4evilI", "evil");
    PLAIN("with\"quote\n\xc3\xa4", "with?quote???");
    PLAIN("", "");
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    char name[SIM_NAME];
    names_plain(text, name, sizeof name);
    CHECK(strlen(name) == SIM_NAME - 1, "a long name is cut");
}

static void allocator(void)
{
    struct memory m = { .fd = -1, .total = 1 << 20, .reserved = 4096 };
    int x = 0, y = 0;
    uint64_t a, b, c;
    CHECK(!memory_alloc(&m, &x, 1, 0, &a) && a == 0 && m.used == 512, "grain");
    CHECK(!memory_alloc(&m, &y, 1000, 4096, &b) && b == 4096 && m.used == 512 + 1024, "aligned");
    CHECK(!memory_alloc(&m, &x, 600, 0, &c) && c == 512, "first fit");
    CHECK(memory_alloc(&m, &x, 0, 0, &a) == -EINVAL && memory_alloc(&m, &x, 512, 3, &a) == -EINVAL, "nonsense");
    CHECK(memory_alloc(&m, &x, UINT64_MAX, 0, &a) == -ENOMEM && memory_alloc(&m, &x, 1 << 20, 0, &a) == -ENOMEM, "too much");
    CHECK(memory_free(&m, &y, c) == -EINVAL && memory_free(&m, &x, 513) == -EINVAL, "not its own");
    CHECK(memory_held(&m, &x) == 512 + 1024 && memory_free_all(&m, &x) == 512 + 1024 && m.used == 1024, "all of one");
    CHECK(memory_charge(&m, 1 << 20) == -ENOMEM && !memory_charge(&m, 8192) && memory_available(&m) == (1 << 20) - 4096 - 1024 - 8192, "charge");
    memory_uncharge(&m, 8192);
    CHECK(!memory_free(&m, &y, b) && m.used == 0 && m.count == 0, "empty again");
    CHECK(!memory_alloc(&m, &x, (1 << 20) - 4096, 0, &a) && memory_alloc(&m, &x, 512, 0, &b) == -ENOMEM, "full");
    memory_close(&m);

    /* Against a plain map of who owns which grain. */
    enum { GRAINS = 256 };
    const void *owner[GRAINS] = { NULL };
    m = (struct memory){ .fd = -1, .total = GRAINS * 512 };
    srand(1);
    for (int i = 0; i < 20000; i++) {
        const void *who = rand() % 2 ? (void *)&x : (void *)&y;
        uint64_t offset = 0, grains = 1 + (uint64_t)rand() % 20;
        if (rand() % 2 && !memory_alloc(&m, who, grains * 512, 512u << rand() % 3, &offset))
            for (uint64_t g = offset / 512; g < offset / 512 + grains; g++) {
                CHECK(g < GRAINS && !owner[g], "grain %llu is given twice", (unsigned long long)g);
                owner[g] = who;
            }
        else if (m.count) {
            struct memory_range range = m.ranges[(uint32_t)rand() % m.count];
            CHECK(!memory_free(&m, range.holder, range.offset), "free");
            for (uint64_t g = range.offset / 512; g < (range.offset + range.bytes) / 512; g++) {
                CHECK(owner[g] == range.holder, "grain %llu was another's", (unsigned long long)g);
                owner[g] = NULL;
            }
        }
        uint64_t used = 0;
        for (int g = 0; g < GRAINS; g++)
            used += owner[g] ? 512 : 0;
        CHECK(used == m.used, "used %llu, counted %llu", (unsigned long long)m.used, (unsigned long long)used);
    }
    memory_close(&m);
}

/* Several holders of one range, against a table of who holds which how often: it is free when the last has let go. */
static void holders(void)
{
    enum { RANGES = 12, HOLDERS = 5 };
    struct { bool there; uint64_t offset, id; unsigned held[HOLDERS]; } model[RANGES] = { 0 };
    struct memory m = { .fd = -1, .total = 1 << 20 };
    char who[HOLDERS];
    srand(2);
    for (int step = 0; step < 50000; step++) {
        int i = rand() % RANGES, h = rand() % HOLDERS;
        unsigned sum = 0, *held = &model[i].held[h];
        switch (rand() % 8) {
        case 0:
            if (model[i].there)
                break;
            CHECK(!memory_alloc(&m, &who[h], 512 * (1 + (uint64_t)i), 0, &model[i].offset), "room");
            CHECK(memory_range_at(&m, model[i].offset)->id != model[i].id, "an id came again");
            model[i].id = memory_range_at(&m, model[i].offset)->id;
            model[i].there = true;
            *held = 1;
            break;
        case 1: case 2: case 3:
            CHECK(memory_hold(&m, &who[h], model[i].offset, model[i].id) == (model[i].there ? 0 : -ENOENT), "hold");
            *held += model[i].there;
            break;
        case 4: {                       /* one client ends: all that it alone held is free */
            uint64_t freed = 0;
            if (rand() % 6)
                break;
            for (int k = 0; k < RANGES; k++) {
                unsigned others = 0;
                for (int j = 0; j < HOLDERS; j++)
                    others += j == h ? 0 : model[k].held[j];
                if (model[k].there && model[k].held[h] && !others)
                    freed += 512 * (1 + (uint64_t)k), model[k].there = false;
                model[k].held[h] = 0;
            }
            CHECK(memory_free_all(&m, &who[h]) == freed, "all of one");
            break;
        }
        default:
            if (model[i].there)         /* else the offset may be another's by now */
                CHECK(memory_free(&m, &who[h], model[i].offset) == (*held ? 0 : -EINVAL), "let go");
            *held -= *held && model[i].there;
            for (int j = 0; j < HOLDERS; j++)
                sum += model[i].held[j];
            model[i].there = model[i].there && sum;
        }
        uint64_t used = 0, counted = 0;
        for (int k = 0; k < RANGES; k++)
            used += model[k].there ? 512 * (1 + (uint64_t)k) : 0;
        for (int j = 0; j < HOLDERS; j++)
            counted += memory_held(&m, &who[j]);
        CHECK(m.used == used && counted == used, "step %d: %llu used, %llu for somebody, %llu by the model", step, (unsigned long long)m.used,
              (unsigned long long)counted, (unsigned long long)used);
    }
    memory_close(&m);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "usage: test_parts PROFILES");
    shipped = argv[1];
    CHECK(mkdtemp(directory), "no directory");
    profiles();
    no_files();
    modes();
    names();
    allocator();
    holders();
    rmdir(directory);
    puts("ok");
    return 0;
}
