/* contexts.c: see contexts.h. Application threads add contexts and say that there is work which nobody notes; the keeper asks. */
#include "contexts.h"

#include "real.h"

#define CONTEXTS 32             /* of one device; more: nothing is ever proven there */
#define EVENT_DISABLE_TIMING 2
#define CAPTURE_MODE_RELAXED 2

static struct place {
    CUcontext context;          /* NULL: free */
    CUevent event;              /* ours, of the context; the keeper's, while it raises gpud_asking */
} places[GPUD_MAX_DEVICES][CONTEXTS];
static uint32_t too_many;       /* bit per ordinal */
static uint32_t unnoted;        /* bit per ordinal: some may have begun since the events were recorded */
static uint32_t under_way[GPUD_MAX_DEVICES];
static uint32_t unproven;       /* … or had before, and has not been proven finished */
static struct asked {           /* the keeper's */
    bool recorded;
    uint64_t entered;
} asked[GPUD_MAX_DEVICES];
static bool no_events;
uint32_t gpud_synchronising;

void gpud_context_note(uint32_t ordinal, CUcontext context)
{
    if (context == NULL || ordinal >= GPUD_MAX_DEVICES)
        return;
    for (uint32_t i = 0; i < CONTEXTS; i++) {
        if (gpud_load(&places[ordinal][i].context) == context)
            return;
    }
    for (uint32_t i = 0; i < CONTEXTS; i++) {
        CUcontext none = NULL;
        if (__atomic_compare_exchange_n(&places[ordinal][i].context, &none, context, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            return;
    }
    __atomic_fetch_or(&too_many, 1u << ordinal, __ATOMIC_SEQ_CST);
}

CUcontext gpud_context_next(uint32_t ordinal, uint32_t *index)
{
    CUcontext context = NULL;

    while (ordinal < GPUD_MAX_DEVICES && *index < CONTEXTS && context == NULL)
        context = gpud_load(&places[ordinal][(*index)++].context);
    return context;
}

static void drop(struct place *place)
{
    place->event = NULL;        /* it went with its context */
    gpud_store_total(&place->context, NULL);
}

void gpud_context_forget(CUcontext context, uint32_t only)
{
    for (uint32_t ordinal = 0; ordinal < GPUD_MAX_DEVICES; ordinal++) {
        bool any = context == NULL && (only == UINT32_MAX || only == ordinal);
        for (uint32_t i = 0; i < CONTEXTS; i++) {
            if (context != NULL && gpud_load(&places[ordinal][i].context) == context)
                drop(&places[ordinal][i]);
            else if (any)       /* a primary one may be there again under the same name, without this event */
                places[ordinal][i].event = NULL;
        }
        asked[ordinal].recorded &= !any;
    }
}

void gpud_unnoted(uint32_t ordinal)
{
    if (ordinal < GPUD_MAX_DEVICES && !(gpud_load_total(&unnoted) & 1u << ordinal))
        __atomic_fetch_or(&unnoted, 1u << ordinal, __ATOMIC_SEQ_CST);
}

static uint32_t ordinal_of(uint32_t device)
{
    uint32_t ordinal = 0;

    while (ordinal < GPUD_MAX_DEVICES && gpud_load(&gpud_slot_of[ordinal]) != device)
        ordinal++;
    return ordinal;
}

void gpud_unnoted_on(uint32_t device)
{
    gpud_unnoted(ordinal_of(device));
}

void gpud_unnoted_begin(uint32_t ordinal)
{
    if (ordinal >= GPUD_MAX_DEVICES)
        return;
    gpud_add_total(&under_way[ordinal], 1);
    gpud_unnoted(ordinal);
}

void gpud_unnoted_end(uint32_t ordinal)
{
    if (ordinal < GPUD_MAX_DEVICES)
        gpud_sub_total(&under_way[ordinal], 1);
}

bool gpud_has_unnoted(uint32_t device)
{
    uint32_t ordinal = ordinal_of(device);

    return ordinal < GPUD_MAX_DEVICES && (gpud_load_total(&under_way[ordinal]) != 0 ||
                                          (gpud_load_total(&unnoted) | gpud_load_total(&unproven)) & 1u << ordinal);
}

enum answer { FINISHED, RUNS, RECORDED, NO_EVENT };

static enum answer record(struct place *place)
{
    if (no_events || real.cuCtxRecordEvent == NULL)
        return NO_EVENT;
    if (place->event == NULL && real.cuEventCreate(&place->event, EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return NO_EVENT;
    CUresult result = real.cuCtxRecordEvent(place->context, place->event);
    no_events = result == CUDA_ERROR_NOT_SUPPORTED;
    return result == CUDA_SUCCESS ? RECORDED : NO_EVENT;
}

/* An error, too, says that nothing runs there any more, unless it is about a capture. */
static enum answer by_result(CUresult result)
{
    if (result == CUDA_ERROR_DEINITIALIZED)
        gpud_store_total(&gpud_exiting, 1);
    return result == CUDA_ERROR_NOT_READY || result == CUDA_ERROR_DEINITIALIZED || result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ||
           result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ? RUNS : FINISHED;
}

/* Without an event the context came after the others were recorded, and nothing has been launched since. */
static enum answer query(struct place *place)
{
    return place->event == NULL ? FINISHED : by_result(real.cuEventQuery(place->event));
}

static enum answer synchronise(struct place *place)
{
    (void)place;
    return real.cuCtxSynchronize == NULL ? RUNS : by_result(real.cuCtxSynchronize());
}

/* In each context of the ordinal. `wanted` if that is the answer of all, else the first other one. */
static enum answer each(uint32_t ordinal, enum answer (*ask)(struct place *place), enum answer wanted)
{
    CUstreamCaptureMode mode = CAPTURE_MODE_RELAXED;
    enum answer answer = wanted;
    CUcontext popped;

    if (real.cuThreadExchangeStreamCaptureMode != NULL)
        real.cuThreadExchangeStreamCaptureMode(&mode);
    for (uint32_t i = 0; i < CONTEXTS && answer == wanted; i++) {
        struct place *place = &places[ordinal][i];
        CUcontext context = gpud_load_total(&place->context);
        if (context == NULL)
            continue;
        CUresult pushed = real.cuCtxPushCurrent_v2(context);
        if (pushed == CUDA_SUCCESS) {
            answer = ask(place);
            real.cuCtxPopCurrent_v2(&popped);
        } else if (pushed == CUDA_ERROR_INVALID_CONTEXT || pushed == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
            drop(place);        /* a primary one that was released */
        } else {
            answer = by_result(pushed) == FINISHED ? RUNS : by_result(pushed);
        }
    }
    if (real.cuThreadExchangeStreamCaptureMode != NULL)
        real.cuThreadExchangeStreamCaptureMode(&mode);
    return answer;
}

/* Asked once the counter is raised that others wait for: nobody is at it who may not be disturbed. */
static bool may_ask(void)
{
    return !gpud_load_total(&gpud_exiting) && gpud_load_total(&gpud_ending) == 0 && gpud_load_total(&gpud_captures) == 0;
}

static enum answer ask_events(uint32_t ordinal, uint64_t entered)
{
    struct asked *it = &asked[ordinal];
    uint32_t bit = 1u << ordinal;

    if (!it->recorded || it->entered != entered || gpud_load_total(&unnoted) & bit) {
        it->recorded = false;
        __atomic_fetch_or(&unproven, gpud_load_total(&unnoted) & bit, __ATOMIC_SEQ_CST);
        __atomic_fetch_and(&unnoted, ~bit, __ATOMIC_SEQ_CST);
        if (gpud_load_total(&under_way[ordinal]) != 0)      /* after that: who comes now says so once more */
            return RUNS;
        enum answer answer = each(ordinal, record, RECORDED);
        if (answer != RECORDED)
            return answer;
        it->recorded = true;
        it->entered = entered;
    }
    return each(ordinal, query, FINISHED);
}

bool gpud_contexts_finished(uint32_t device, uint64_t entered)
{
    uint32_t ordinal = ordinal_of(device);

    if (ordinal >= GPUD_MAX_DEVICES || gpud_load(&too_many) & 1u << ordinal)
        return false;
    gpud_add_total(&gpud_asking, 1);
    enum answer answer = may_ask() ? ask_events(ordinal, entered) : RUNS;
    gpud_sub_total(&gpud_asking, 1);
    if (answer == NO_EVENT) {
        gpud_store_total(&gpud_synchronising, 1);
        answer = may_ask() ? each(ordinal, synchronise, FINISHED) : RUNS;
        gpud_store_total(&gpud_synchronising, 0);
    }
    if (answer != FINISHED || gpud_load_total(&unnoted) & 1u << ordinal)
        return false;
    __atomic_fetch_and(&unproven, ~(1u << ordinal), __ATOMIC_SEQ_CST);
    return true;
}

void gpud_contexts_renew(void)
{
    for (uint32_t ordinal = 0; ordinal < GPUD_MAX_DEVICES; ordinal++)
        asked[ordinal].recorded = false;
}

void gpud_contexts_forget(void)
{
    for (uint32_t ordinal = 0; ordinal < GPUD_MAX_DEVICES; ordinal++) {
        asked[ordinal] = (struct asked){ 0 };
        under_way[ordinal] = 0;
        for (uint32_t i = 0; i < CONTEXTS; i++)
            places[ordinal][i] = (struct place){ 0 };
    }
    too_many = unnoted = unproven = gpud_synchronising = 0;
}
