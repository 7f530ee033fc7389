/* entry: the exported functions of the driver API. Each jumps to its code, sim_do_NAME (see ENTRY in api.h), unless faults are
 * asked for (inject.h): then inject_call(number of the symbol) is asked first, and what it answers, unless that is 0, is the
 * result. So there is one place that all calls pass, whatever their parameters, and a way past it of three instructions. */
#ifdef __CET__
#include <cet.h>
#else
#define _CET_ENDBR
#endif

    .hidden inject_armed
    .hidden inject_call

    .macro entry symbol
    .hidden sim_do_\symbol
    .globl \symbol
    .type \symbol, @function
    .p2align 4
\symbol:
    .cfi_startproc
    _CET_ENDBR
    cmpl $0, inject_armed(%rip)
    jne 1f
    jmp sim_do_\symbol
1:  movl $number, %eax
    jmp injected
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

/* eax: number of the symbol. All registers that may carry parameters are kept. */
    .type injected, @function
    .p2align 4
injected:
    .cfi_startproc
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    pushq %rcx
    .cfi_adjust_cfa_offset 8
    pushq %r8
    .cfi_adjust_cfa_offset 8
    pushq %r9
    .cfi_adjust_cfa_offset 8
    pushq %rax
    .cfi_adjust_cfa_offset 8
    subq $64, %rsp
    .cfi_adjust_cfa_offset 64
    movsd %xmm0, (%rsp)
    movsd %xmm1, 8(%rsp)
    movsd %xmm2, 16(%rsp)
    movsd %xmm3, 24(%rsp)
    movsd %xmm4, 32(%rsp)
    movsd %xmm5, 40(%rsp)
    movsd %xmm6, 48(%rsp)
    movsd %xmm7, 56(%rsp)
    movl %eax, %edi
    call inject_call
    movl %eax, %r11d
    movsd (%rsp), %xmm0
    movsd 8(%rsp), %xmm1
    movsd 16(%rsp), %xmm2
    movsd 24(%rsp), %xmm3
    movsd 32(%rsp), %xmm4
    movsd 40(%rsp), %xmm5
    movsd 48(%rsp), %xmm6
    movsd 56(%rsp), %xmm7
    addq $64, %rsp
    .cfi_adjust_cfa_offset -64
    popq %rax
    .cfi_adjust_cfa_offset -8
    popq %r9
    .cfi_adjust_cfa_offset -8
    popq %r8
    .cfi_adjust_cfa_offset -8
    popq %rcx
    .cfi_adjust_cfa_offset -8
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    testl %r11d, %r11d
    jne 1f
    leaq addresses(%rip), %r10
    jmp *(%r10,%rax,8)
1:  movl %r11d, %eax
    ret
    .cfi_endproc
    .size injected, . - injected

    .section .data.rel.ro, "aw"
    .p2align 3
addresses:
#define SYMBOL(name, symbol, version, twin) address symbol
#include "symbols.h"
#undef SYMBOL
    .section .note.GNU-stack, "", @progbits
