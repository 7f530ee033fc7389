/* entry: the exported functions of the driver API. See entry_x86_64.S. */
    .hidden inject_armed
    .hidden inject_call

    .macro entry symbol
    .hidden sim_do_\symbol
    .globl \symbol
    .type \symbol, %function
    .p2align 4
\symbol:
    .cfi_startproc
    hint #34                        /* bti c, where it means anything */
    adrp x16, inject_armed
    ldr w16, [x16, :lo12:inject_armed]
    cbnz w16, 1f
    b sim_do_\symbol
1:  mov w16, #number
    b injected
    .cfi_endproc
    .size \symbol, . - \symbol
    .set number, number + 1
    .endm

    .macro address symbol
    .quad sim_do_\symbol
    .endm

    .text
    .set number, 0
#define SYMBOL(name, symbol, version, twin) entry symbol
#include "symbols.h"
#undef SYMBOL

/* w16: number of the symbol. All registers that may carry parameters are kept. */
    .type injected, %function
    .p2align 4
injected:
    .cfi_startproc
    stp x29, x30, [sp, #-160]!
    .cfi_adjust_cfa_offset 160
    .cfi_offset x29, -160
    .cfi_offset x30, -152
    mov x29, sp
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    stp d0, d1, [sp, #80]
    stp d2, d3, [sp, #96]
    stp d4, d5, [sp, #112]
    stp d6, d7, [sp, #128]
    str x16, [sp, #144]
    mov w0, w16
    bl inject_call
    mov w17, w0
    ldr x16, [sp, #144]
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x4, x5, [sp, #48]
    ldp x6, x7, [sp, #64]
    ldp d0, d1, [sp, #80]
    ldp d2, d3, [sp, #96]
    ldp d4, d5, [sp, #112]
    ldp d6, d7, [sp, #128]
    ldp x29, x30, [sp], #160
    .cfi_restore x29
    .cfi_restore x30
    .cfi_adjust_cfa_offset -160
    cbnz w17, 1f
    adrp x17, addresses
    add x17, x17, :lo12:addresses
    ldr x16, [x17, w16, uxtw #3]
    br x16                          /* x16: a branch by it may land at bti c */
1:  mov w0, w17
    ret
    .cfi_endproc
    .size injected, . - injected

    .section .data.rel.ro, "aw"
    .p2align 3
addresses:
#define SYMBOL(name, symbol, version, twin) address symbol
#include "symbols.h"
#undef SYMBOL
    .section .note.GNU-stack, "", %progbits
