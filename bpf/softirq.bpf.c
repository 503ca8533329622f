// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Softirq time and runs in buckets of 4 ms for each CPU, and packets by device.
 *
 * A hit of a tracepoint costs about 100 ns whatever the program does, so there are few: entry and exit of
 * softirqs, NAPI polls, and task switches for packet threads only. softirq_raise and kfree_skb are left out.
 */
#include "helpers.h"
#include "kernel.h"
#include "softirq.h"

struct {
	INTEGER(type, MAP_ARRAY);
	INTEGER(map_flags, F_MMAPABLE);
	INTEGER(max_entries, BUCKETS);
	TYPE(key, u32);
	TYPE(value, struct softirq_bucket);
} buckets SEC(".maps");

struct {
	INTEGER(type, MAP_ARRAY);
	INTEGER(map_flags, F_MMAPABLE);
	INTEGER(max_entries, CPUS_MAX);
	TYPE(key, u32);
	TYPE(value, struct softirq_live);
} live SEC(".maps");

struct {
	INTEGER(type, MAP_PERCPU_HASH);
	INTEGER(max_entries, 1024);
	TYPE(key, u32);
	TYPE(value, struct device_polls);
} devices SEC(".maps");

/* Returns this CPU's bucket of an epoch, cleared if the slot held an older one. */
INLINE struct softirq_bucket *bucket_of(u32 cpu, u64 epoch)
{
	u32 slot = cpu * BUCKETS + (u32)(epoch % BUCKETS);
	struct softirq_bucket *b = map_lookup(&buckets, &slot);

	if (b && b->epoch != epoch) {
		memset(b, 0, sizeof(*b));
		b->epoch = epoch;
	}
	return b;
}

SEC("tp_btf/softirq_entry")
int softirq_entry(u64 *ctx)
{
	u32 vector = (u32)ctx[0];
	u32 cpu = smp_processor_id();
	struct softirq_live *l = map_lookup(&live, &cpu);

	if (!l)
		return 0;
	l->runs++;
	if (l->detail_off && vector != VECTOR_NET_RX)
		return 0;
	l->entry_ns = ktime_ns();
	l->vector = vector;
	return 0;
}

/* Adds the time of a handler to the buckets it touched; NET_RX may last three of them. */
INLINE void add_time(u32 cpu, u32 vector, u64 from, u64 to, int in_ksoftirqd)
{
	int is_first = 1;

	for (int i = 0; i < 4; i++) {
		u64 epoch = from / BUCKET_NS;
		u64 border = (epoch + 1) * BUCKET_NS;
		u64 end = to < border || i == 3 ? to : border;
		struct softirq_bucket *b = bucket_of(cpu, epoch);

		if (!b)
			return;
		if (is_first)
			b->runs[vector]++;
		is_first = 0;
		b->time_ns[vector] += (u32)(end - from);
		if (in_ksoftirqd)
			b->rx_ksoftirqd_ns += (u32)(end - from);
		if (end >= to)
			return;
		from = end;
	}
}

/* Adds packet work to the account of the present window, which the throttle reads. */
INLINE void add_used(struct softirq_live *l, u64 from, u64 to)
{
	u64 window = to / BUCKET_NS;
	u64 start = window * BUCKET_NS;

	if (l->window != window) {
		l->used_ns = 0;
		l->window = window;
	}
	l->used_ns += (u32)(to - (from > start ? from : start));
}

SEC("tp_btf/softirq_exit")
int softirq_exit(u64 *ctx)
{
	u32 vector = (u32)ctx[0];
	u32 cpu = smp_processor_id();
	struct softirq_live *l = map_lookup(&live, &cpu);
	int in_ksoftirqd = 0;
	u64 now, from;

	if (!l || vector >= VECTORS || l->vector != vector)
		return 0; /* attached in the middle of a handler, or not measured */
	now = ktime_ns();
	from = l->entry_ns;
	if (now < from)
		return 0;
	if (vector == VECTOR_NET_RX) {
		/* The account is written before the handler's end, so that a reader in between counts the
		 * time twice rather than not at all. */
		add_used(l, from, now);
		if (!l->detail_off) {
			struct task_struct *task = current_task();

			in_ksoftirqd = (task->flags & PF_KTHREAD) && task->comm[0] == 'k' &&
				       task->comm[1] == 's' && task->comm[2] == 'o';
		}
	}
	l->vector = NO_VECTOR;
	add_time(cpu, vector, from, now, in_ksoftirqd);
	return 0;
}

SEC("tp_btf/napi_poll")
int napi_poll(u64 *ctx)
{
	struct napi_struct *napi = (void *)ctx[0];
	u32 work = (u32)ctx[1], budget = (u32)ctx[2];
	u32 cpu = smp_processor_id();
	struct softirq_live *l = map_lookup(&live, &cpu);
	struct softirq_bucket *b;
	struct device_polls *d;
	u32 index = 0;

	if (!l)
		return 0;
	l->polls++;
	if (l->detail_off)
		return 0;
	b = bucket_of(cpu, ktime_ns() / BUCKET_NS);
	if (b) {
		b->polls++;
		b->packets += work;
		b->full_polls += work >= budget;
	}
	if (napi->dev)
		index = napi->dev->ifindex; /* the backlog's polls have no device and count as 0 */
	d = map_lookup(&devices, &index);
	if (!d) {
		struct device_polls none = {};

		map_update(&devices, &index, &none, NOEXIST);
		d = map_lookup(&devices, &index);
		if (!d)
			return 0;
	}
	d->polls++;
	d->packets += work;
	d->full_polls += work >= budget;
	return 0;
}

INLINE int is_napi_thread(struct task_struct *task)
{
	return (task->flags & PF_KTHREAD) && task->comm[0] == 'n' && task->comm[1] == 'a' &&
	       task->comm[2] == 'p' && task->comm[3] == 'i' && task->comm[4] == '/';
}

/* Packet threads emit no softirq tracepoints: their time is the time for which they are scheduled. */
SEC("tp_btf/sched_switch")
int sched_switch(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 cpu;
	struct softirq_live *l;
	u64 now, from;

	if (!is_napi_thread(prev) && !is_napi_thread(next))
		return 0;
	cpu = smp_processor_id();
	l = map_lookup(&live, &cpu);
	if (!l)
		return 0;
	now = ktime_ns();
	from = l->napi_since_ns;
	if (from && from < now) {
		add_used(l, from, now);
		for (int i = 0; i < 8; i++) {
			u64 border = (from / BUCKET_NS + 1) * BUCKET_NS;
			u64 end = now < border || i == 7 ? now : border;
			struct softirq_bucket *b = bucket_of(cpu, from / BUCKET_NS);

			if (!b)
				break;
			b->napi_thread_ns += (u32)(end - from);
			if (end >= now)
				break;
			from = end;
		}
	}
	l->napi_since_ns = is_napi_thread(next) ? now : 0;
	return 0;
}

LICENSE;
