/* limits.c: see limits.h. */
#include "limits.h"

void limits_begin(uint32_t devices)
{
    local_attach(devices);
    real.cuEventElapsedTime = NULL;
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        struct gpud_control_device *knobs = &local_control()->device[device];
        knobs->tenant = 7;
        knobs->draw_ns = GPUD_MILLISECOND;
        knobs->cap_burst_ns = UINT64_MAX;
        knobs->launch_rate = knobs->block_rate = knobs->copy_rate = UINT64_MAX;
        knobs->burst_ns = 10 * GPUD_MILLISECOND;
        knobs->others_lag_ns = INT64_MIN;
    }
    fake_context(0);
}

void limits_teach(const void *function, uint64_t blocks, uint64_t ns)
{
    struct gpud_measure measure = { .ns = ns, .busy = true, .clean = true };
    for (int i = 0; i < 64; i++)
        gpud_cost_learn(0, gpud_cost_key(function, blocks), blocks, &measure, gpud_now());
}

void limits_gate(uint32_t device, uint32_t gate)
{
    gpud_store(&local_control()->device[device].gate, gate);
    local_publish();
    local_wake();
}

static void begin(uint32_t *sequence)
{
    gpud_store_total(sequence, gpud_load(sequence) + 1);
}

static void end(uint32_t *sequence)
{
    gpud_store_total(sequence, gpud_load(sequence) + 1);
}

void limits_cap(uint32_t device, int64_t base_ns, uint32_t rate_ppm, uint64_t t0_ns)
{
    struct gpud_control_device *knobs = &local_control()->device[device];

    begin(&knobs->level_seq);
    gpud_store(&knobs->cap_base_ns, base_ns);
    gpud_store(&knobs->cap_rate_ppm, rate_ppm);
    gpud_store(&knobs->cap_t0_ns, t0_ns);
    end(&knobs->level_seq);
}

void limits_share(uint32_t device, int64_t base_ns, uint32_t rate_ppm, uint64_t t0_ns, uint64_t turn_ns)
{
    struct gpud_control_device *knobs = &local_control()->device[device];

    begin(&knobs->level_seq);
    gpud_store(&knobs->share_base_ns, base_ns);
    gpud_store(&knobs->share_rate_ppm, rate_ppm);
    gpud_store(&knobs->share_t0_ns, t0_ns);
    gpud_store(&knobs->share_turn_ns, turn_ns);
    end(&knobs->level_seq);
}

struct gpud_presence_page *limits_peer(uint32_t present, uint32_t tenant, uint32_t flags)
{
    struct gpud_presence_page *page = local_peer(present, 1);
    struct gpud_peer *peer = limits_entry(present);

    page->device[0] = (struct gpud_presence_device){ 0 };
    gpud_store(&peer->tenant, tenant);
    gpud_store(&peer->flags, flags);
    return page;
}

struct gpud_peer *limits_entry(uint32_t present)
{
    struct gpud_control_device *knobs = &local_control()->device[0];

    for (uint32_t i = 0; i < knobs->peer_count; i++) {
        if (knobs->peers[i].present == present)
            return &knobs->peers[i];
    }
    return NULL;
}

void limits_peers_gone(void)
{
    gpud_store(&local_control()->device[0].peer_count, 0);
    local_publish();
}

static void *launch_on(void *argument)
{
    struct limits_thread *it = argument;

    fake_context(it->device);
    while (!gpud_load(&it->stop) && (it->most == 0 || gpud_load(&it->launches) < it->most)) {
        fake_launch_of(it->function, it->blocks, it->stream, 0, it->duration_ns);
        gpud_add(&it->launches, 1);
    }
    return NULL;
}

void limits_start(struct limits_thread *it)
{
    it->stop = it->launches = 0;
    it->blocks = it->blocks == 0 ? 1 : it->blocks;
    if (it->stream == NULL)
        it->stream = fake_stream();
    pthread_create(&it->thread, NULL, launch_on, it);
}

void limits_stop(struct limits_thread *it)
{
    gpud_store(&it->stop, 1);
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++)
        limits_gate(device, 0);
    pthread_join(it->thread, NULL);
}

uint32_t limits_launched(const struct limits_thread *it)
{
    return gpud_load(&it->launches);
}

uint64_t limits_spent(uint32_t device)
{
    return gpud_load(&gpud_presence()->device[device].spent_ns);
}

void limits_idle(uint32_t device)
{
    EVENTUALLY(gpud_presence_ask(device), "device %u goes idle", device);
}

bool limits_held(uint32_t threads)
{
    return gpud_load_total(&gpud_holding) == threads;
}

uint64_t limits_holds(uint32_t device)
{
    uint64_t holds = 0;
    for (uint32_t i = 0; i < GPUD_MAX_SLOTS; i++)
        holds += gpud_load(&gpud_activity()->device[device].slots[i].held);
    return holds;
}

const struct gpud_slot *limits_held_slot(uint32_t device)
{
    for (uint32_t i = 0; i < GPUD_MAX_SLOTS; i++) {
        if (gpud_load(&gpud_activity()->device[device].slots[i].holding))
            return &gpud_activity()->device[device].slots[i];
    }
    return NULL;
}

void limits_pause(uint64_t ns)
{
    struct timespec nap = gpud_timespec(ns);
    nanosleep(&nap, NULL);
}
