/* test_vmm_faults.c: what a program does with handles of its own, with a fault at each driver call in turn, and random sequences of it against a
 * model. The contents of a handle's memory are what was written last, wherever it is mapped; nothing leaks; what failed works at the
 * next try. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "vmm_program.h"

#define PLACES 12
#define HANDLES 5

static struct memory {
    CUmemGenericAllocationHandle handle;
    uint64_t units, references, mappings, content[3];
} memories[HANDLES];
static struct place {
    struct memory *memory;      /* NULL: nothing is mapped from here on */
    uint64_t units;
    int rights[2];
} places[PLACES];
static CUdeviceptr range;
static uint64_t written;
static bool faulty;

static void look(void);
static void look_at_rights(void);

/* Again, where a fault has been in the way; what has failed has changed nothing. */
static bool works(CUresult (*call)(const void *), const void *of, CUresult wanted)
{
    CUresult result = call(of);
    for (int i = 0; i < 2 && faulty && result != wanted; i++) {
        look_at_rights();
        if (gpud_pool_lacks(SLOT) == 0)
            look();
        result = call(of);
    }
    CHECK(result == wanted, "%d instead of %d", result, wanted);
    return result == CUDA_SUCCESS;
}

struct step {
    struct memory *memory;
    uint64_t at, units;
    int device, flags;
};
static CUresult create(const void *of)
{
    const struct step *step = of;
    return make_handle(&step->memory->handle, step->memory->units * UNIT);
}
static CUresult release(const void *of)
{
    return gpud_vmm_release(((const struct step *)of)->memory->handle);
}
static CUresult map(const void *of)
{
    const struct step *step = of;
    return gpud_vmm_map(range + step->at * UNIT, step->units * UNIT, 0, step->memory->handle, 0);
}
static CUresult unmap(const void *of)
{
    const struct step *step = of;
    return gpud_vmm_unmap(range + step->at * UNIT, step->units * UNIT);
}
static CUresult set_rights(const void *of)
{
    const struct step *step = of;
    return rights(range + step->at * UNIT, step->units * UNIT, step->device, step->flags);
}

static bool is_free(uint64_t at, uint64_t units)
{
    bool room = at + units <= PLACES;
    for (uint64_t i = 0; i < PLACES && room; i++)
        room = places[i].memory == NULL || i + places[i].units <= at || i >= at + units;
    return room;
}

static bool is_whole(uint64_t at, uint64_t units)
{
    uint64_t end = at + units;
    while (at < end && at < PLACES && places[at].memory != NULL)
        at += places[at].units;
    return at == end;
}

static void write_all(struct memory *memory)
{
    for (uint64_t i = 0; i < PLACES; i++) {
        for (uint64_t k = 0; places[i].memory == memory && (places[i].rights[0] | places[i].rights[1]) == 3 && k < places[i].units; k++)
            *word_at(range + (i + k) * UNIT + 64) = memory->content[k] = ++written;
    }
}

/* Of what is in; the rest has none. */
static void look_at_rights(void)
{
    bool lacks = gpud_pool_lacks(SLOT) != 0;

    for (uint64_t i = 0; i < PLACES; i++) {
        for (int device = 0; device < 2 && places[i].memory != NULL; device++) {
            int has = vmm_rights(range + i * UNIT, device);
            CHECK(has == places[i].rights[device] || (has == -1 && lacks), "rights of %d at %llu: %d", device, (unsigned long long)i, has);
        }
    }
}

/* All is in: what the program sees is what the model says, and the driver has no byte more. */
static void look(void)
{
    uint64_t bytes = 0;

    look_at_rights();
    for (uint64_t i = 0; i < PLACES; i++) {
        const struct place *place = &places[i];
        for (uint64_t k = 0; place->memory != NULL && place->rights[0] | place->rights[1] && k < place->units; k++)
            CHECK(*word_at(range + (i + k) * UNIT + 64) == place->memory->content[k], "contents at %llu", (unsigned long long)(i + k));
    }
    for (int i = 0; i < HANDLES; i++)
        bytes += memories[i].references + memories[i].mappings != 0 ? memories[i].units * UNIT : 0;
    struct gpud_pool_counts counts = gpud_pool_counts(SLOT);
    CHECK(counts.resident == bytes && bytes + gpud_chunk_lost == vmm_live.handle_bytes && gpud_host_used == 0,
          "%llu bytes, counted %llu, the driver has %llu; %llu of slots", (unsigned long long)bytes, (unsigned long long)counts.resident,
          (unsigned long long)vmm_live.handle_bytes, (unsigned long long)gpud_host_used);
}

static void bring_in(void)
{
    uint64_t moved;
    for (int i = 0; i < 3 && gpud_pool_lacks(SLOT) != 0; i++)
        gpud_swap_in(SLOT, UINT64_MAX, 0, &moved);
    CHECK(gpud_pool_lacks(SLOT) == 0, "not all came in");
}

static void away(bool is)
{
    gpud_store(&gpud_presence_at(SLOT)->lock, is ? GPUD_LOCK_NONE : GPUD_LOCK_HAS);
    gpud_store(&vmm_control(SLOT)->gate, is ? GPUD_GATE_GRANT : 0);
}

enum { CREATE, RELEASE, MAP, UNMAP, RIGHTS, RETAIN, ACTS };

static void act(int what, struct step step)
{
    struct memory *m = step.memory;
    uint64_t at = step.at, units = step.units;
    switch (what) {
    case CREATE:
        if (m->references + m->mappings != 0)
            break;
        *m = (struct memory){ .units = units };
        m->references = works(create, &step, CUDA_SUCCESS);
        break;
    case RELEASE:
        m->references -= works(release, &step, m->references != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
        break;
    case MAP:
        if (works(map, &step, m->references != 0 && units <= m->units && is_free(at, units) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE)) {
            places[at] = (struct place){ m, units, { 0, 0 } };
            m->mappings++;
        }
        break;
    case UNMAP:
        if (!works(unmap, &step, is_whole(at, units) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE))
            break;
        for (uint64_t i = at; i < at + units; i++) {
            if (places[i].memory != NULL)
                places[i].memory->mappings--;
            places[i] = (struct place){ 0 };
        }
        break;
    case RIGHTS:
        if (!works(set_rights, &step, is_whole(at, units) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE))
            break;
        for (uint64_t i = at; i < at + units; i++)
            places[i].rights[step.device] = step.flags;
        break;
    case RETAIN: {
        CUmemGenericAllocationHandle got = 0;
        const struct place *place = &places[at];
        if (place->memory != NULL && gpud_vmm_retain(&got, range + at * UNIT + 5) == CUDA_SUCCESS)
            place->memory->references += got == place->memory->handle;
        CHECK(place->memory == NULL || got == place->memory->handle, "retain");
    }
    }
}

static void act_somehow(unsigned *seed)
{
    struct memory *m = &memories[rand_r(seed) % HANDLES];
    uint64_t at = (uint64_t)rand_r(seed) % PLACES, units = 1 + (uint64_t)rand_r(seed) % 3;
    act(rand_r(seed) % ACTS, (struct step){ m, at, units, rand_r(seed) % 2, rand_r(seed) % 3 == 0 ? 1 : 3 });
}

static void out_and_look(uint64_t bytes)
{
    uint64_t moved;
    gpud_swap_out(SLOT, bytes, 0, &moved);
    if (gpud_pool_lacks(SLOT) == 0)
        look();         /* nothing could leave */
    bring_in();
    look();
}

/* Two addresses of one memory, others beside it; rights and an end over several mappings at once. */
static void prologue(void)
{
    for (int i = 0; i < 3; i++)
        act(CREATE, (struct step){ &memories[i], 0, i == 0 ? 2 : 1, 0, 0 });
    for (uint64_t at = 0; at <= 4; at += 4)
        act(MAP, (struct step){ &memories[0], at, 2, 0, 0 });
    act(MAP, (struct step){ &memories[1], 2, 1, 0, 0 });
    act(MAP, (struct step){ &memories[2], 3, 1, 0, 0 });
    act(RIGHTS, (struct step){ NULL, 0, 6, 0, 3 });
    act(RIGHTS, (struct step){ NULL, 2, 4, 1, 1 });
    for (int i = 0; i < 3; i++)
        write_all(&memories[i]);
    out_and_look(UINT64_MAX);
    act(RIGHTS, (struct step){ NULL, 0, 6, 1, 3 });
    for (int i = 0; i < 3; i++)
        write_all(&memories[i]);
    uint64_t moved;
    gpud_swap_out(SLOT, UNIT, 0, &moved);       /* some of them are here */
    act(RIGHTS, (struct step){ NULL, 0, 6, 1, 1 });
    act(UNMAP, (struct step){ NULL, 0, 4, 0, 0 });
    bring_in();
    look();
    act(MAP, (struct step){ &memories[1], 0, 1, 0, 0 });
    act(MAP, (struct step){ &memories[0], 1, 1, 0, 0 });
    act(RIGHTS, (struct step){ NULL, 0, 2, 0, 3 });
    out_and_look(UINT64_MAX);
    act(UNMAP, (struct step){ NULL, 0, 2, 0, 0 });
    act(RELEASE, (struct step){ &memories[0], 0, 0, 0, 0 });
    act(RELEASE, (struct step){ &memories[1], 0, 0, 0, 0 });
}

/* One life of a program; `steps` and the seed say what it does. */
static void story(unsigned seed, int steps)
{
    uint64_t moved;

    range = reserve_addresses(PLACES * UNIT);
    prologue();
    for (int i = 0; i < steps && check_failures == 0; i++) {
        if (rand_r(&seed) % 8 == 0) {
            away(true);
            gpud_swap_out(SLOT, rand_r(&seed) % 2 ? UINT64_MAX : UNIT, 0, &moved);
        }
        act_somehow(&seed);
        if (rand_r(&seed) % 4 == 0) {
            away(false);
            bring_in();
            look();
            write_all(&memories[rand_r(&seed) % HANDLES]);
        }
    }
    for (uint64_t i = 0; i < PLACES; i++) {
        if (places[i].memory != NULL)
            act(UNMAP, (struct step){ NULL, i, places[i].units, 0, 0 });
    }
    for (int i = 0; i < HANDLES; i++) {
        while (memories[i].references > 0 && check_failures == 0)
            act(RELEASE, (struct step){ &memories[i], 0, 0, 0, 0 });
    }
    CHECK(vmm_live.handles == 0 && vmm_live.mapped_bytes == 0 && vmm_live.reservations == 1 && gpud_host_used == 0 && gpud_chunk_lost == 0,
          "%llu handles, %llu mapped, %llu reservations left", (unsigned long long)vmm_live.handles, (unsigned long long)vmm_live.mapped_bytes,
          (unsigned long long)vmm_live.reservations);
    CHECK(vmm_violations == 0, "wrong uses");
}

/* 0: all right, and the fault came; 1: wrong; 2: the story has fewer calls. */
static int child(unsigned seed, int steps, uint64_t n, CUresult code)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(300);
        vmm_start(256 * MIB);
        vmm_host(64 * MIB);
        gpud_slots_start();
        faulty = code != 0;
        vmm_fail(n, code, false);
        story(seed, steps);
        _exit(check_failures != 0 ? 1 : vmm_failed() ? 0 : 2);
    }
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
    unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : 20;

    for (unsigned i = 0; i < 10; i++)
        CHECK(child(seed + i, 400, 0, 0) == 2, "seed %u", seed + i);
    for (unsigned story = 0; story < 2; story++) {
        uint64_t n = 1;
        for (int outcome = 0; outcome != 2 && n < 2000 && check_failures < 3; n += story == 0 ? 1 : 3) {
            outcome = child(seed + story, 12, n, n % 3 == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN);
            CHECK(outcome != 1, "story %u with a fault at call %llu", seed + story, (unsigned long long)n);
        }
        CHECK((n > 30 && n < 2000) || check_failures != 0, "only %llu calls", (unsigned long long)n);
        printf("story %u: %llu calls\n", seed + story, (unsigned long long)n);
    }
    return check_summary("pool vmm faults");
}
