/* dlsym: the thunk. The real dlsym finds RTLD_NEXT by its caller's return address, so it must be jumped to, never called,
 * with the stack as our caller left it. In C that depends on the optimiser; here it does not.
 *
 * gpud_classify(handle, name, return address) answers where to jump. */
#ifdef __CET__
#include <cet.h>
#else
#define _CET_ENDBR
#endif

    .text
    .p2align 4
    .globl gpud_dlsym_old
    .globl gpud_dlsym_new
    .type gpud_dlsym_old, @function
    .type gpud_dlsym_new, @function
    .hidden gpud_classify
gpud_dlsym_old:
gpud_dlsym_new:
    .cfi_startproc
    _CET_ENDBR
    movq (%rsp), %rdx
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    call gpud_classify
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    jmp *%rax
    .cfi_endproc
    .size gpud_dlsym_old, . - gpud_dlsym_old
    .size gpud_dlsym_new, . - gpud_dlsym_new
    .symver gpud_dlsym_old, dlsym@GLIBC_2.2.5
    .symver gpud_dlsym_new, dlsym@@GLIBC_2.34
    .section .note.GNU-stack, "", @progbits
