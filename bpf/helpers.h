/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What every program needs of the kernel's interface: sections, map definitions in BTF form, and the helper
 * functions by the numbers of the kernel's UAPI. It replaces libbpf's headers, which Debian ships in another
 * version on each release.
 */
#ifndef GABION_HELPERS_H
#define GABION_HELPERS_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))
/* A function that the verifier looks at once, on its own, and not again for each call. Its pointers may be NULL there. */
#define GLOBAL __attribute__((noinline))
#define CONSTANT const volatile /* a constant that the loader writes into .rodata */
#define NULL ((void *)0)

/* The fields of a map in BTF form: the loader reads the sizes from the types. */
#define INTEGER(name, value) int (*name)[value]
#define TYPE(name, value) typeof(value) *name
#define MAPS(name, inner) typeof(inner) *name[]

#define MAP_HASH 1
#define MAP_ARRAY 2
#define MAP_PROG_ARRAY 3
#define MAP_PERCPU_HASH 5
#define MAP_PERCPU_ARRAY 6
#define MAP_LRU_HASH 9
#define MAP_LPM_TRIE 11
#define MAP_ARRAY_OF_MAPS 12
#define MAP_RINGBUF 27
#define MAP_TASK_STORAGE 29

#define F_NO_PREALLOC (1U << 0)
#define F_MMAPABLE (1U << 10)

#define ANY 0
#define NOEXIST 1
#define STORAGE_CREATE 1
#define RING_NO_WAKEUP 1
#define RING_AVAIL_DATA 0
#define RING_SIZE 1

#define offsetof(type, field) __builtin_offsetof(type, field)
#define memcpy __builtin_memcpy
#define memset __builtin_memset
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
/* Keeps the compiler from moving a bound check away from the use that the verifier wants to see next to it. */
#define opaque(x) asm volatile("" : "+r"(x))
/* Has the compiler load what it wrote, so that the verifier forgets the value and finds later states the same. */
#define forget_memory() asm volatile("" : : : "memory")

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*ktime_ns)(void) = (void *)5;
static u32 (*smp_processor_id)(void) = (void *)8;
static long (*tail_call)(void *ctx, void *programs, u32 index) = (void *)12;
static u64 (*current_pid_tgid)(void) = (void *)14;
static u64 (*current_uid_gid)(void) = (void *)15;
static long (*probe_read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*probe_read_user_str)(void *to, u32 size, const void *from) = (void *)114;
static long (*probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static u64 (*ktime_boot_ns)(void) = (void *)125;
static long (*ringbuf_output)(void *ring, void *from, u64 size, u64 flags) = (void *)130;
static u64 (*ringbuf_query)(void *ring, u64 what) = (void *)134;
static void *(*task_storage_get)(void *map, void *task, void *value, u64 flags) = (void *)156;
static long (*task_storage_delete)(void *map, void *task) = (void *)157;
static struct task_struct *(*current_task)(void) = (void *)158;
static long (*loop)(u32 count, void *body, void *context, u64 flags) = (void *)181;

#define LICENSE char terms[] SEC("license") = "Dual BSD/GPL"

#endif
