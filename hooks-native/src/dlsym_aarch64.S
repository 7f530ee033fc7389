/* dlsym: the thunk. See dlsym_x86_64.S. */
    .text
    .p2align 4
    .globl gpud_dlsym_old
    .globl gpud_dlsym_new
    .type gpud_dlsym_old, %function
    .type gpud_dlsym_new, %function
    .hidden gpud_classify
gpud_dlsym_old:
gpud_dlsym_new:
    .cfi_startproc
    hint #34                        /* bti c, where it means anything */
    stp x29, x30, [sp, #-32]!
    .cfi_adjust_cfa_offset 32
    .cfi_offset x29, -32
    .cfi_offset x30, -24
    mov x29, sp
    stp x0, x1, [sp, #16]
    mov x2, x30
    bl gpud_classify
    mov x16, x0                     /* x16: a branch by it may land at bti c */
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #32
    .cfi_restore x29
    .cfi_restore x30
    .cfi_adjust_cfa_offset -32
    br x16
    .cfi_endproc
    .size gpud_dlsym_old, . - gpud_dlsym_old
    .size gpud_dlsym_new, . - gpud_dlsym_new
    .symver gpud_dlsym_old, dlsym@GLIBC_2.17
    .symver gpud_dlsym_new, dlsym@@GLIBC_2.34
    .section .note.GNU-stack, "", %progbits
