// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * System calls at their exit, one record each.
 *
 * The dispatcher looks a call up in the interest table; what its record holds is a recipe, which is data, so a
 * further call needs no program. The calls that state and Falco's rules need have code of their own, which the build
 * writes from the same recipes. There is no dispatcher at the entry: that would cost every call of the machine
 * 50 ns. Only the five calls whose name another thread can change in between are also read at their own entry,
 * into memory of the task, and merged here.
 */
#include "helpers.h"
#include "kernel.h"
#include "syscalls.h"

#define OUT_MASK 0x7fff
#define OUT_BYTES (OUT_MASK + 1 + 2 * PATH_BYTES + 512) /* native code writes up to 512 bytes of words at once */
#define NO_CALL 0 /* as in storage that was just made */

/*
 * A walk from an entry of a folder up to the root. Whatever counts bytes is here and not on the stack: the verifier
 * follows each value of the stack through every turn of a loop, and does not follow this memory.
 */
struct walk {
	u64 dentry, mount;
	u64 root_dentry, root_mount;
	u64 mount_root; /* the root of the mount in which the walk is */
	u64 base_dentry, base_mount;
	u64 node, last_node; /* of control groups */
	u32 start; /* in `out` */
	u32 used;
	u32 depth;
	u32 base_depth; /* components below the base, or NO_BASE */
	u32 flags;
	u8 entry[128]; /* a copy of an entry of a folder */
};

/* Memory in which a CPU builds its record; programs of system calls are not interrupted by one another. */
struct scratch {
	/* The first eight words are those that `fixed` of a recipe names. */
	u64 args[6];
	s64 result;
	u32 number;
	u32 is_ia32;
	u64 file; /* the file of a successful open */
	u32 base_depth;
	u32 is_absolute; /* the name */
	u32 exe_bytes; /* of the first argument */
	u32 used; /* bytes of `out` */
	u64 fill; /* bytes in the ring of this CPU when it was last asked */
	struct walk walk;
	u8 address[ADDRESS_BYTES];
	u8 out[OUT_BYTES];
};

#include "paths.h"
#include "process.h"
#include "sockets.h"

/* The enter half of a call that is under way. */
struct enter {
	u32 number; /* of the call, plus one */
	s32 bytes;
	u64 pointer;
	u8 name[NAME_BYTES];
	u32 sequence; /* of this thread's records */
};

struct {
	INTEGER(type, MAP_ARRAY);
	INTEGER(map_flags, F_MMAPABLE);
	INTEGER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct control);
} control SEC(".maps");

struct {
	INTEGER(type, MAP_ARRAY);
	INTEGER(max_entries, CALLS + 2); /* the last ones are for ends of threads */
	TYPE(key, u32);
	TYPE(value, struct recipe);
} recipes SEC(".maps");

struct {
	INTEGER(type, MAP_ARRAY);
	INTEGER(map_flags, F_MMAPABLE);
	INTEGER(max_entries, CPUS_MAX);
	TYPE(key, u32);
	TYPE(value, struct counters);
} counters SEC(".maps");

struct {
	INTEGER(type, MAP_ARRAY);
	INTEGER(max_entries, CPUS_MAX);
	TYPE(key, u32);
	TYPE(value, struct scratch);
} scratches SEC(".maps");

struct {
	INTEGER(type, MAP_TASK_STORAGE);
	INTEGER(map_flags, F_NO_PREALLOC);
	TYPE(key, s32);
	TYPE(value, struct enter);
} enters SEC(".maps");

/* Enter halves of tasks whose storage failed. The oldest go; the halves of as many tasks that wait in a call are kept. */
struct {
	INTEGER(type, MAP_LRU_HASH);
	INTEGER(max_entries, 1024);
	TYPE(key, u32);
	TYPE(value, struct enter);
} spare_enters SEC(".maps");

/* For trials: as if the kernel had no memory for the storage of tasks when their calls begin. */
CONSTANT u32 without_storage = 0;

struct ring {
	INTEGER(type, MAP_RINGBUF);
	INTEGER(max_entries, 1 << 16);
};

struct {
	INTEGER(type, MAP_ARRAY_OF_MAPS);
	INTEGER(max_entries, CPUS_MAX);
	INTEGER(key_size, 4);
	MAPS(values, struct ring);
} rings SEC(".maps");

/* The event table for which the records are made; the loader compares it with its own. */
const volatile u64 event_table SEC(".rodata.table") = EVENT_TABLE;

/* What the values of a record share. */
struct building {
	struct scratch *s;
	struct recipe *r;
	struct enter *e;
	struct control *c;
};

/* Whether the first `n` bytes of two names are the same. What is behind them differs. */
INLINE int same(const u8 *a, const u8 *b, u32 n)
{
	u32 words = n / 8 & (NAME_BYTES / 8 - 1), rest = n & 7;
	u64 differs;

#pragma clang loop unroll(disable)
	for (u32 i = 0; i < words; i++) {
		if (*(const u64 *)(a + i * 8) != *(const u64 *)(b + i * 8))
			return 0;
	}
	if (!rest)
		return 1;
	differs = *(const u64 *)(a + words * 8) ^ *(const u64 *)(b + words * 8);
	return !(differs << (64 - 8 * rest));
}

#define IN_ADDRESS 0xffffffffU

/*
 * Compares the `n` bytes that the exit read with the enter half, if there is one of this very call. They are in `out` at
 * a place, or in `address`. Returns their number, which differs if only the enter half has them.
 */
GLOBAL u32 check_name(struct scratch *s, struct enter *e, u64 pointer, u32 n, u32 place)
{
	u32 zero = 0, bytes;
	struct control *c = map_lookup(&control, &zero);
	struct head *h;
	u8 *to;

	if (!s || !c)
		return 0;
	h = (void *)s->out;
	to = place == IN_ADDRESS ? s->address : s->out + (place & OUT_MASK);
	h->toctou = TOCTOU_EXIT_ONLY;
	if (s->is_ia32) {
		h->cause = CAUSE_IA32;
		return n;
	}
	if (!c->enter_attached) {
		h->cause = CAUSE_NOT_ATTACHED;
		return n;
	}
	if (!e || e->number == NO_CALL) {
		h->cause = c->has_spare ? CAUSE_NO_MEMORY : CAUSE_NOT_SEEN;
		return n;
	}
	if (e->number != s->number + 1 || e->pointer != pointer) {
		h->cause = CAUSE_OTHER_CALL;
		return n;
	}
	bytes = (u32)e->bytes;
	if (e->bytes <= 0) {
		h->cause = CAUSE_NOT_READABLE;
	} else if (bytes >= NAME_BYTES) {
		h->cause = CAUSE_TOO_LONG;
	} else if (!n) {
		h->toctou = TOCTOU_ENTER_ONLY;
		if (bytes <= (place == IN_ADDRESS ? ADDRESS_BYTES : NAME_BYTES) && !probe_read_kernel(to, bytes, e->name))
			n = bytes;
	} else if (n == bytes && same(to, e->name, n)) {
		h->toctou = TOCTOU_AGREE;
	} else {
		h->toctou = TOCTOU_MISMATCH;
	}
	return n;
}

/* Reads the address at a pointer into the scratch memory; returns its size. */
INLINE u32 read_address(struct scratch *s, u64 pointer, s64 bytes)
{
	u32 n = bytes > ADDRESS_BYTES ? ADDRESS_BYTES : (u32)bytes;

	memset(s->address, 0, ADDRESS_BYTES);
	if (bytes < 2 || !pointer)
		return 0;
	opaque(n);
	if (n > ADDRESS_BYTES || probe_read_user(s->address, n, (void *)pointer))
		return 0;
	return n;
}

/* Reads up to snaplen bytes of a buffer. */
INLINE u32 put_bytes(struct building *b, u8 *to, u64 pointer, s64 bytes)
{
	u32 n = b->c->snaplen;

	if (bytes <= 0)
		return 0;
	if ((u64)bytes < n)
		n = (u32)bytes;
	n &= PATH_BYTES - 1;
	if (probe_read_user(to, n, (void *)pointer))
		return 0;
	return n;
}

struct message {
	u64 name;
	u32 name_bytes, unused;
	u64 vector, vectors;
	u64 control, control_bytes;
	u64 flags;
};

struct entry {
	u64 base, bytes;
};

/* Gathers up to snaplen bytes of a vector of buffers; `limit` is how many bytes moved. */
NOINLINE u32 put_vector(struct building *b, u8 *to, u64 pointer, u64 count, s64 limit)
{
	u32 space = b->c->snaplen & (PATH_BYTES - 1), used = 0;

	if (limit < space)
		space = limit > 0 ? (u32)limit : 0;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < 8; i++) {
		struct entry v;
		u32 n, at = used & (PATH_BYTES - 1);

		if (i >= count || used >= space)
			break;
		if (probe_read_user(&v, sizeof(v), (void *)(pointer + i * sizeof(v))))
			break;
		n = space - used;
		if (v.bytes < n)
			n = (u32)v.bytes;
		n &= PATH_BYTES - 1;
		if (probe_read_user(to + at, n, (void *)v.base))
			break;
		used += n;
	}
	return used;
}

/* The sum of the sizes of a vector of buffers. */
NOINLINE u32 vector_size(u64 pointer, u64 count)
{
	u64 sum = 0;

#pragma clang loop unroll(disable)
	for (u32 i = 0; i < 32; i++) {
		u64 bytes = 0;

		if (i >= count)
			break;
		probe_read_user(&bytes, 8, (void *)(pointer + i * 16 + 8));
		sum += bytes;
	}
	return (u32)sum;
}

/* Descriptors of poll: a count of 2 bytes, then number and events of each. */
NOINLINE u32 put_poll(u8 *to, u64 pointer, u64 count)
{
	u32 n = count > 16 ? 16 : (u32)count;

	*(u16 *)to = (u16)n;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < 16; i++) {
		struct {
			s32 fd;
			u16 events, found;
		} p = {};

		if (i >= n)
			break;
		probe_read_user(&p, sizeof(p), (void *)(pointer + i * 8));
		*(s64 *)(to + 2 + i * 10) = p.fd;
		*(u16 *)(to + 10 + i * 10) = p.found;
	}
	return 2 + n * 10;
}

#include "values.h"
#include "opens.h"
#include "native.h" /* made by the build from `recipes.tsv` */

/* Writes the values of a recipe that are all words: most calls have no others, and a loop of calls costs more. */
INLINE void put_fixed(struct scratch *s, struct recipe *r)
{
	u32 at = s->used & OUT_MASK;
	u16 *length = (void *)(s->out + sizeof(struct head));

#pragma clang loop unroll(full)
	for (u32 i = 0; i < FIXED_MAX; i++) {
		u32 from = r->fixed[i][0], size = r->fixed[i][1] & 15;
		u64 word;

		if (i >= r->values)
			break;
		word = ((u64 *)s)[from & 7];
		if (from & FIXED_SIGNED)
			word = (u64)(s64)(s32)word;
		if (from & FIXED_CONSTANT)
			word = r->constant;
		*(u64 *)(s->out + at) = word;
		length[i] = (u16)size;
		at += size;
	}
	s->used = at;
}

/* As `put_fixed` for recipes with texts or data among the words. */
NOINLINE u32 put_words(struct building *b)
{
	struct scratch *s = b->s;
	struct recipe *r = b->r;

#pragma clang loop unroll(disable)
	for (u32 i = 0; i < FIXED_MAX; i++) {
		u32 from = r->fixed[i][0], size = r->fixed[i][1] & 15, at = s->used & OUT_MASK;
		u8 *to = s->out + at;
		u64 word = ((u64 *)s)[from & 7];

		if (i >= r->values)
			break;
		if (from & FIXED_TEXT) {
			long n = probe_read_user_str(to, PATH_BYTES, (void *)word);

			size = n > 0 ? (u32)n & (2 * PATH_BYTES - 1) : 0;
		} else if (from & FIXED_DATA) {
			size = put_bytes(b, to, word, (s64)((u64 *)s)[size & 7]) & (PATH_BYTES - 1);
		} else {
			if (from & FIXED_SIGNED)
				word = (u64)(s64)(s32)word;
			*(u64 *)to = word;
		}
		*(u16 *)(s->out + sizeof(struct head) + 2 * i) = (u16)size;
		s->used = at + size;
	}
	return 0;
}

/* Whether a ring is too full for a class. Asking costs, so that every eighth record of a class does. */
INLINE int is_too_full(struct control *c, struct scratch *s, void *ring, u32 class, u64 received)
{
	if (!(received & 7) || s->fill > c->fill_max[class])
		s->fill = ringbuf_query(ring, RING_AVAIL_DATA);
	return s->fill > c->fill_max[class];
}

/* What the records of a call need in addition to their values. */
struct sending {
	struct task_struct *task;
	struct counters *n;
	u32 cpu;
	void *ring;
};

/* Counts a call and writes the head of its record; 0 if it is shed. */
INLINE int begin_record(struct building *b, struct sending *to)
{
	struct scratch *s = b->s;
	struct recipe *r = b->r;
	struct head *h = (void *)s->out;
	struct counters *n = to->n;
	u32 class = r->class & (CLASSES - 1), cpu = to->cpu;

	n->received[class]++;
	h->sequence = 0;
	if (r->changes_state && b->e)
		h->sequence = ++b->e->sequence; /* before it may be shed: a gap is how the reader notices that */
	to->ring = map_lookup(&rings, &cpu);
	if (!to->ring || is_too_full(b->c, s, to->ring, class, n->received[class])) {
		n->shed_ring[class]++;
		n->shed_state += r->changes_state;
		return 0;
	}
	h->ts_ns = ktime_boot_ns();
	h->tid = to->task->pid;
	h->type = r->type;
	h->cpu = (u16)cpu;
	h->values = r->values;
	h->toctou = 0;
	h->cause = 0;
	h->flags = s->is_ia32 ? FLAG_IA32 : 0;
	s->base_depth = NO_BASE;
	s->file = 0;
	s->used = sizeof(struct head) + 2 * (r->values & 63);
	return 1;
}

/* Sends the record, or counts why not. */
INLINE void end_record(struct building *b, struct sending *to)
{
	struct scratch *s = b->s;
	struct recipe *r = b->r;
	struct counters *n = to->n;
	u32 class = r->class & (CLASSES - 1);
	u64 size = s->used;

	if (size > OUT_MASK) {
		n->shed_size[class]++;
		n->shed_state += r->changes_state;
		return;
	}
	if (ringbuf_output(to->ring, s->out, size, RING_NO_WAKEUP)) {
		n->shed_ring[class]++;
		n->shed_state += r->changes_state;
		return;
	}
	n->passed[class]++;
	n->bytes += size;
}

/* Writes the values of a call's record. */
INLINE void put_values(struct building *b)
{
	u32 native = b->r->native;

	if (native >= NATIVE_FIRST)
		put_native(b, native);
	else if (native == ALL_FIXED)
		put_fixed(b->s, b->r);
	else if (native == WITH_MEMORY)
		put_words(b);
	else
		loop(b->r->values & 63, put_value, b, 0);
}

INLINE int is_own(struct control *c, struct scratch *s, struct counters *n, struct task_struct *task)
{
	u32 process = task->tgid;

	if (unlikely(c->learn) && s->args[0] == c->learn) {
		c->own = process;
		return 1;
	}
	if (process != c->own)
		return 0;
	n->own++;
	return 1;
}

/*
 * The call that a program of 32 bits makes by socketcall: its number of 64 bits, with its arguments in place of those of
 * socketcall. CALLS if there is no such call.
 */
static u32 unpack_socketcall(struct scratch *s)
{
	static const u16 numbers[] = { CALLS, 41, 49, 42, 50, 43, 51, 52, 53, 44, 45,
				       44, 45, 48, 54, 55, 46, 47, 288, 299, 307 };
	static const u8 counts[] = { 0, 3, 3, 3, 2, 3, 3, 3, 4, 4, 4, 6, 6, 2, 5, 5, 3, 3, 4, 5, 4 };
	u32 call = (u32)s->args[0], words[6] = {}, bytes;

	if (call >= sizeof(counts))
		return CALLS;
	bytes = 4 * counts[call];
	opaque(bytes);
	if (bytes > sizeof(words) || probe_read_user(words, bytes, (void *)s->args[1]))
		return CALLS;
	for (u32 i = 0; i < 6; i++)
		s->args[i] = words[i];
	return numbers[call];
}

/* Moves the enter half of a task from spare memory into its storage. */
static u32 take_spare(struct enter *e, struct task_struct *task)
{
	u32 tid = task->pid, sequence = e->sequence;
	struct enter *spare = map_lookup(&spare_enters, &tid);

	if (!spare)
		return 0;
	probe_read_kernel(e, sizeof(*e), spare);
	e->sequence = sequence;
	spare->number = NO_CALL;
	return 0;
}

SEC("tp_btf/sys_exit")
int sys_exit(u64 *ctx)
{
	struct pt_regs *regs = (void *)ctx[0];
	u64 number = regs->orig_ax;
	u32 zero = 0, cpu, wanted;
	struct control *c = map_lookup(&control, &zero);
	struct task_struct *task;
	struct counters *n;
	struct scratch *s;
	struct recipe *r;
	struct enter *e = NULL;
	struct building b;
	struct sending to;

	if (!c || number >= CALLS)
		return 0;
	wanted = c->interest[number & (CALLS - 1)];
	if (likely(!wanted))
		return 0;
	task = current_task();
	cpu = smp_processor_id();
	n = map_lookup(&counters, &cpu);
	s = map_lookup(&scratches, &cpu);
	if (!n || !s)
		return 0;
	if (unlikely(task->thread_info.status & TS_COMPAT)) {
		if (!(wanted & 2))
			return 0;
		s->args[0] = (u32)regs->bx;
		s->args[1] = (u32)regs->cx;
		s->args[2] = (u32)regs->dx;
		s->args[3] = (u32)regs->si;
		s->args[4] = (u32)regs->di;
		s->args[5] = (u32)regs->bp;
		if (number == SOCKETCALL) {
			number = unpack_socketcall(s);
			if (number < CALLS && !(c->interest[number & (CALLS - 1)] & 1))
				return 0;
		} else {
			number = c->ia32[number & (CALLS - 1)];
		}
		if (number >= CALLS) {
			n->unmapped_ia32++;
			return 0;
		}
		s->is_ia32 = 1;
		s->result = (s32)ctx[1];
	} else {
		if (!(wanted & 1))
			return 0;
		s->args[0] = regs->di;
		s->args[1] = regs->si;
		s->args[2] = regs->dx;
		s->args[3] = regs->r10;
		s->args[4] = regs->r8;
		s->args[5] = regs->r9;
		s->is_ia32 = 0;
		s->result = (s64)ctx[1];
	}
	s->number = (u32)number;
	if (is_own(c, s, n, task))
		return 0;
	r = map_lookup(&recipes, &s->number);
	if (!r || !r->type)
		return 0;
	if (r->changes_state) {
		e = task_storage_get(&enters, task, NULL, STORAGE_CREATE);
		if (!e)
			n->storage_failed++;
		else if (unlikely(c->has_spare) && e->number == NO_CALL)
			take_spare(e, task);
	}
	b.s = s;
	b.r = r;
	b.e = e;
	b.c = c;
	to.task = task;
	to.n = n;
	to.cpu = cpu;
	if (begin_record(&b, &to)) {
		put_values(&b);
		end_record(&b, &to);
	}
	if (e)
		e->number = NO_CALL;
	return 0;
}

SEC("tp_btf/sched_process_exit")
int sched_process_exit(u64 *ctx)
{
	u32 zero = 0, cpu = smp_processor_id(), number = CALLS;
	struct control *c = map_lookup(&control, &zero);
	struct task_struct *task = current_task();
	struct counters *n = map_lookup(&counters, &cpu);
	struct scratch *s = map_lookup(&scratches, &cpu);
	struct recipe *r = map_lookup(&recipes, &number);
	struct building b = {};
	struct sending to = {};

	if (!c || !n || !s || !r || !r->type || !c->exits || (task->flags & PF_KTHREAD))
		return 0;
	s->args[0] = 0;
	s->number = number;
	s->is_ia32 = 0;
	s->result = task->exit_code;
	if (is_own(c, s, n, task))
		return 0;
	b.s = s;
	b.r = r;
	b.e = task_storage_get(&enters, task, NULL, 0);
	b.c = c;
	to.task = task;
	to.n = n;
	to.cpu = cpu;
	if (!begin_record(&b, &to))
		return 0;
	if (r->native)
		native_procexit(&b);
	else
		loop(r->values & 63, put_value, &b, 0);
	end_record(&b, &to);
	return 0;
}

/* The arguments of a system call's own tracepoint. The number has 32 bits, with garbage above. */
struct enter_context {
	u64 head;
	s32 number;
	u32 garbage;
	u64 args[6];
};

/* Memory for an enter half where the storage of the task failed. */
INLINE struct enter *spare_enter(struct task_struct *task)
{
	u32 zero = 0, cpu = smp_processor_id(), tid = task->pid;
	struct control *c = map_lookup(&control, &zero);
	struct counters *n = map_lookup(&counters, &cpu);
	struct scratch *s = map_lookup(&scratches, &cpu);

	if (!c || !n || !s)
		return NULL;
	n->storage_failed++;
	c->has_spare = 1;
	/* What is in the entry is written by the caller; any memory of its size will do. */
	if (map_update(&spare_enters, &tid, s->out, ANY))
		return NULL;
	return map_lookup(&spare_enters, &tid);
}

INLINE struct enter *begin_enter(struct enter_context *ctx, u64 pointer)
{
	struct task_struct *task = current_task();
	struct enter *e = without_storage ? NULL : task_storage_get(&enters, task, NULL, STORAGE_CREATE);

	if (!e)
		e = spare_enter(task);
	if (!e)
		return NULL;
	e->number = (u32)ctx->number + 1;
	e->pointer = pointer;
	return e;
}

INLINE int enter_name(struct enter_context *ctx, u64 pointer)
{
	struct enter *e = begin_enter(ctx, pointer);

	if (e)
		e->bytes = (s32)probe_read_user_str(e->name, NAME_BYTES, (void *)pointer);
	return 0;
}

SEC("tracepoint/syscalls/sys_enter_open")
int enter_open(struct enter_context *ctx)
{
	return enter_name(ctx, ctx->args[0]);
}

SEC("tracepoint/syscalls/sys_enter_creat")
int enter_creat(struct enter_context *ctx)
{
	return enter_name(ctx, ctx->args[0]);
}

SEC("tracepoint/syscalls/sys_enter_openat")
int enter_openat(struct enter_context *ctx)
{
	return enter_name(ctx, ctx->args[1]);
}

SEC("tracepoint/syscalls/sys_enter_openat2")
int enter_openat2(struct enter_context *ctx)
{
	return enter_name(ctx, ctx->args[1]);
}

SEC("tracepoint/syscalls/sys_enter_connect")
int enter_connect(struct enter_context *ctx)
{
	struct enter *e = begin_enter(ctx, ctx->args[1]);
	u64 n = ctx->args[2];

	if (!e)
		return 0;
	if (n > ADDRESS_BYTES)
		n = ADDRESS_BYTES;
	memset(e->name, 0, ADDRESS_BYTES);
	e->bytes = n >= 2 && !probe_read_user(e->name, n, (void *)ctx->args[1]) ? (s32)n : -1;
	return 0;
}

LICENSE;
