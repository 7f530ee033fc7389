/* levels_divide.c: one total, several who want it. Arithmetic only. */
#include "levels_native.h"

void gpud_divide(uint64_t amount, struct gpud_ask *asks, uint32_t count)
{
    uint64_t rest = amount;
    uint32_t wanting = 0;

    for (uint32_t i = 0; i < count; i++) {
        asks[i].settled = 0;
        wanting += asks[i].state != GPUD_ASK_IDLE;
    }
    uint32_t left = wanting;
    for (uint32_t before = left + 1; left > 0 && left < before;) {
        before = left;
        uint64_t fair = rest / left;    /* only grows while those who ask for less are served */
        for (uint32_t i = 0; i < count; i++) {
            if (asks[i].state != GPUD_ASK_CONTENT || asks[i].settled || asks[i].demand > fair)
                continue;
            asks[i].settled = 1;
            asks[i].part = asks[i].demand;
            rest -= asks[i].demand;
            left--;
        }
    }
    /* Where nobody asks for more, what is left over is a reserve of all. */
    uint64_t spare = left == 0 && wanting > 0 ? rest / wanting : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (asks[i].state == GPUD_ASK_IDLE)
            asks[i].part = amount / (wanting + 1);
        else if (asks[i].settled)
            asks[i].part += spare;
        else
            asks[i].part = rest / left;
    }
}
