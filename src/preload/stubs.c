/*
 * stubs.c - the names of libllama's functions, and where a call to one of them goes: to ours, where the libllama that was meant is one
 * that wane knows, else to its own.
 *
 * Of a library that wane does not know not even the arguments are known. So a stub keeps all registers that arguments may lie
 * in, asks, puts them back and jumps: the function that is reached finds everything as its caller left it. On macOS, and on
 * processors without a stub here, ours are called directly, and hand on what they were given.
 */
#include "preload/preload.h"

#include <stdint.h>

#if WANE__STUBS
/* One piece of assembly, so that its parts keep their order. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

/* A function that is not there: 0, NULL, false. */
static intptr_t nothing(void) {
    return 0;
}

typedef void (*function)(void);

/* Called by the stubs. */
function wane__wrap_target(uintptr_t id, const void *caller);
__attribute__((used)) function wane__wrap_target(uintptr_t id, const void *caller) {
    struct wane__library *library = wane__library_of(caller);
    if (library == NULL || library->real[id] == NULL) return (function)nothing;
    return library->known ? wane__wraps[id] : library->real[id];
}

#if defined(__x86_64__)
#define STUB(name)                                                        \
    ".globl " #name "\n.type " #name ",@function\n" #name ":\n endbr64\n" \
    " pushq $wane__id\n jmp wane__stub\n.size " #name ", . - " #name "\n" \
    ".set wane__id, wane__id + 1\n"
__asm__(
    ".text\n"
    "wane__stub:\n" /* the id, then the address of the caller are on the stack */
    " pushq %rdi\n pushq %rsi\n pushq %rdx\n pushq %rcx\n"
    " pushq %r8\n pushq %r9\n pushq %rax\n pushq %r10\n"
    " subq $128, %rsp\n"
    " movups %xmm0, 0(%rsp)\n movups %xmm1, 16(%rsp)\n movups %xmm2, 32(%rsp)\n movups %xmm3, 48(%rsp)\n"
    " movups %xmm4, 64(%rsp)\n movups %xmm5, 80(%rsp)\n movups %xmm6, 96(%rsp)\n movups %xmm7, 112(%rsp)\n"
    " movq 192(%rsp), %rdi\n movq 200(%rsp), %rsi\n"
    " call wane__wrap_target\n"
    " movq %rax, %r11\n"
    " movups 0(%rsp), %xmm0\n movups 16(%rsp), %xmm1\n movups 32(%rsp), %xmm2\n movups 48(%rsp), %xmm3\n"
    " movups 64(%rsp), %xmm4\n movups 80(%rsp), %xmm5\n movups 96(%rsp), %xmm6\n movups 112(%rsp), %xmm7\n"
    " addq $128, %rsp\n"
    " popq %r10\n popq %rax\n popq %r9\n popq %r8\n"
    " popq %rcx\n popq %rdx\n popq %rsi\n popq %rdi\n"
    " addq $8, %rsp\n"
    " jmp *%r11\n"
    ".set wane__id, 0\n" WANE__WRAPPED(STUB));
#else
#define STUB(name)                                                         \
    ".globl " #name "\n.type " #name ",%function\n" #name ":\n hint #34\n" \
    " mov x16, #wane__id\n b wane__stub\n.size " #name ", . - " #name "\n" \
    ".set wane__id, wane__id + 1\n"
__asm__(
    ".text\n.p2align 2\n"
    "wane__stub:\n"
    " stp x29, x30, [sp, #-16]!\n mov x29, sp\n"
    " stp x0, x1, [sp, #-16]!\n stp x2, x3, [sp, #-16]!\n stp x4, x5, [sp, #-16]!\n stp x6, x7, [sp, #-16]!\n"
    " str x8, [sp, #-16]!\n"
    " stp q0, q1, [sp, #-32]!\n stp q2, q3, [sp, #-32]!\n stp q4, q5, [sp, #-32]!\n stp q6, q7, [sp, #-32]!\n"
    " mov x0, x16\n mov x1, x30\n"
    " bl wane__wrap_target\n"
    " mov x16, x0\n"
    " ldp q6, q7, [sp], #32\n ldp q4, q5, [sp], #32\n ldp q2, q3, [sp], #32\n ldp q0, q1, [sp], #32\n"
    " ldr x8, [sp], #16\n"
    " ldp x6, x7, [sp], #16\n ldp x4, x5, [sp], #16\n ldp x2, x3, [sp], #16\n ldp x0, x1, [sp], #16\n"
    " ldp x29, x30, [sp], #16\n"
    " br x16\n"
    ".set wane__id, 0\n" WANE__WRAPPED(STUB));
#endif

#endif
