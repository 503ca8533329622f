/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The throttle: packet work of an interface gets a part of a CPU, and what exceeds it is dropped before it costs.
 *
 * Order of the checks: what is never dropped, the allow-list, the limits of new flows (of the source's prefix, then of
 * all), the budget of the present 4 ms. Each packet is charged when it is admitted, as a thousand packets may wait in
 * a queue before their time is measured; measured time is the second check. 1 s after the last heartbeat all pass.
 *
 * `now()` and `seed_of()` come from the file that includes this one, so that tests have a clock of their own.
 */
#ifndef GABION_THROTTLE_H
#define GABION_THROTTLE_H

#include "helpers.h"
#include "packets.h"
#include "softirq.h"

#define XDP_DROP 1
#define XDP_PASS 2
#define VICTIMS_MAX 16
#define FLOWS_MAX 65536
#define PREFIXES_MAX 16384
#define PREFIX_SLOTS_BITS 10

/* Written by the controller; read for each packet. `probe::throttle` has the same layout. */
struct throttle_control {
	u64 deadline_ns; /* until when packets may be dropped; each heartbeat moves it */
	u64 incident_ns; /* flows first seen before are known; 0: there is no incident, all seen ones are known */
	u64 seed; /* of the hash of flows */
	u32 budget_ns; /* packet work in 4 ms of a victim; 0: no budget */
	u32 cost_ns; /* charged for each admitted packet */
	u64 prefix_interval_ns; /* between new flows of a prefix; 0: no limit */
	u64 prefix_depth_ns;
	u64 all_interval_ns; /* between new flows; 0: no limit */
	u64 all_depth_ns;
	u32 victims; /* how many of the next are used: they share what is charged to the first of them */
	u32 is_measured; /* whether `live` holds the measured time */
	u16 victim[VICTIMS_MAX]; /* CPUs whose time the interface's packets take */
	u64 step_ns; /* of the test's clock */
	u32 unknown_budget_ns; /* the part of the budget that flows which are not known may use */
	u32 generation; /* of the allow-list */
	u32 list_holds; /* which kinds of entries the allow-list has */
	u32 ignores_exempt; /* what is never dropped is the flood: it is not charged, and measured time does not count */
};

#define LIST_PREFIXES 1
#define LIST_PORTS 2

/* What is charged to one victim, or to all that share; a cache line each. */
struct charge {
	u64 charged; /* window << 24 | ns charged in it */
	u64 unused[7];
};

/* The most that fits into an account; the budgets of many CPUs together are cut to it. */
#define CHARGED_MAX 0xd00000

/* A CPU's entry in `feeds`: the victim whose account its packets are charged to, and whether all victims share that. */
#define FEEDS_CPU 0xffff
#define FEEDS_ALL 0x10000

/* Shared by all CPUs that run the program. */
struct throttle_state {
	u64 unused[8];
	u64 all_next_ns; /* when the next new flow is due */
	u64 unused2[7];
	u64 clock_ns; /* the test's clock */
	u64 flows_differ; /* in the test each packet begins a flow */
};

struct throttle_counts {
	u64 packets[VERDICTS];
	u64 bytes[VERDICTS];
	u64 new_flows;
	u64 table_failed;
};

struct xdp_md {
	u32 data;
	u32 data_end;
	u32 data_meta;
	u32 ingress_ifindex;
	u32 rx_queue_index;
	u32 egress_ifindex;
};

struct {
	INTEGER(type, MAP_ARRAY);
	INTEGER(map_flags, F_MMAPABLE);
	INTEGER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct throttle_control);
} control SEC(".maps");

struct {
	INTEGER(type, MAP_ARRAY);
	INTEGER(map_flags, F_MMAPABLE);
	INTEGER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct throttle_state);
} state SEC(".maps");

struct {
	INTEGER(type, MAP_ARRAY);
	INTEGER(map_flags, F_MMAPABLE);
	INTEGER(max_entries, CPUS_MAX);
	TYPE(key, u32);
	TYPE(value, struct throttle_counts);
} counts SEC(".maps");

/* Whose time the packets take that the program sees on a CPU. */
struct {
	INTEGER(type, MAP_ARRAY);
	INTEGER(map_flags, F_MMAPABLE);
	INTEGER(max_entries, CPUS_MAX);
	TYPE(key, u32);
	TYPE(value, u64);
} feeds SEC(".maps");

struct {
	INTEGER(type, MAP_ARRAY);
	INTEGER(max_entries, CPUS_MAX);
	TYPE(key, u32);
	TYPE(value, struct charge);
} charges SEC(".maps");

struct flow {
	u64 seen_ns; /* first */
	u32 generation; /* of the allow-list for which the next is right */
	u32 is_allowed;
};

/* Flows by the hash of their 5-tuple. What the allow-list says of one is kept, as its four look-ups cost the most. */
struct {
	INTEGER(type, MAP_LRU_HASH);
	INTEGER(max_entries, FLOWS_MAX);
	TYPE(key, u64);
	TYPE(value, struct flow);
} flows SEC(".maps");

/* When the next new flow of a source's prefix is due. */
struct {
	INTEGER(type, MAP_LRU_HASH);
	INTEGER(max_entries, PREFIXES_MAX);
	TYPE(key, u64);
	TYPE(value, u64);
} prefixes SEC(".maps");

struct address {
	u32 bits;
	u8 bytes[16]; /* IPv4 as ::ffff:a.b.c.d */
};

/* New flows by the hash of their source's prefix: the largest is an upper bound of what one prefix begins. */
struct {
	INTEGER(type, MAP_ARRAY);
	INTEGER(map_flags, F_MMAPABLE);
	INTEGER(max_entries, 1 << PREFIX_SLOTS_BITS);
	TYPE(key, u32);
	TYPE(value, u64);
} begun SEC(".maps");

/* Addresses, of either end, that are never dropped. */
struct {
	INTEGER(type, MAP_LPM_TRIE);
	INTEGER(map_flags, F_NO_PREALLOC);
	INTEGER(max_entries, 4096);
	TYPE(key, struct address);
	TYPE(value, u32);
} allowed SEC(".maps");

/* Destination or source ports that are never dropped: protocol << 16 | port. */
struct {
	INTEGER(type, MAP_HASH);
	INTEGER(max_entries, 1024);
	TYPE(key, u32);
	TYPE(value, u32);
} allowed_ports SEC(".maps");

/* The instruments' present state of each CPU, which is an array of another object. */
struct live_array {
	INTEGER(type, MAP_ARRAY);
	INTEGER(map_flags, F_MMAPABLE);
	INTEGER(max_entries, CPUS_MAX);
	INTEGER(key_size, 4);
	INTEGER(value_size, sizeof(struct softirq_live));
};

struct {
	INTEGER(type, MAP_ARRAY_OF_MAPS);
	INTEGER(max_entries, 1);
	INTEGER(key_size, 4);
	MAPS(values, struct live_array);
} live SEC(".maps");

INLINE u64 now(struct throttle_control *c, struct throttle_state *s);
INLINE u64 seed_of(struct throttle_control *c, struct throttle_state *s);

/*
 * Whether an event at `now` keeps to one in `interval`, with bursts of `depth`: `next` is when the next one is due, and
 * moves by an interval for each that is admitted. At least one is always admitted after an interval without any.
 */
INLINE int is_due(u64 *next, u64 now, u64 interval, u64 depth)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < 4; i++) {
		u64 due = *(volatile u64 *)next, from = due > now ? due : now;

		if (due > now + depth)
			return 0;
		if (__sync_val_compare_and_swap(next, due, from + interval) == due)
			return 1;
	}
	return 0; /* other CPUs were faster four times */
}

/* Charges a packet in the present window; returns what was charged before. */
INLINE u64 charge(struct charge *s, u64 window, u64 cost)
{
	window &= 0xffffffffffULL;
#pragma clang loop unroll(disable)
	for (int i = 0; i < 4; i++) {
		u64 old = *(volatile u64 *)&s->charged;

		if (old >> 24 == window) {
			if ((old & 0xffffff) > 0xe00000)
				return old & 0xffffff; /* full: it must not run over into the window */
			return __sync_fetch_and_add(&s->charged, cost) & 0xffffff;
		}
		if (__sync_val_compare_and_swap(&s->charged, old, window << 24 | cost) == old)
			return 0;
	}
	return 0;
}

/* Charges a packet that is never dropped, unless such packets are the flood. */
INLINE void charge_exempt(struct throttle_control *c, struct charge *s, u64 window)
{
	if (!c->ignores_exempt)
		charge(s, window, c->cost_ns);
}

INLINE u64 charged_in(struct charge *s, u64 window)
{
	u64 old = *(volatile u64 *)&s->charged;

	return old >> 24 == (window & 0xffffffffffULL) ? old & 0xffffff : 0;
}

/* Whether the measured packet work of a CPU in this window exceeds its budget. */
INLINE int is_over(void *array, u32 cpu, u64 t, u64 window, u64 budget)
{
	u64 start = window * BUCKET_NS, used = 0;
	struct softirq_live *l = map_lookup(array, &cpu);

	if (!l)
		return 0;
	if (l->window == window)
		used = l->used_ns;
	if (l->vector == VECTOR_NET_RX && l->entry_ns < t)
		used += t - (l->entry_ns > start ? l->entry_ns : start);
	return used > budget;
}

/* The same for the victim that this CPU feeds, or any of those that share. */
INLINE int is_victim_over(struct throttle_control *c, u64 feed, u64 t, u64 window)
{
	u32 zero = 0;
	void *array = map_lookup(&live, &zero);

	if (!array)
		return 0;
	if (!(feed & FEEDS_ALL))
		return is_over(array, feed & FEEDS_CPU, t, window, c->budget_ns);
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < VICTIMS_MAX; i++) {
		if (i >= c->victims)
			break;
		if (is_over(array, c->victim[i], t, window, c->budget_ns))
			return 1;
	}
	return 0;
}

INLINE int is_allowed(struct throttle_control *c, struct packet *p)
{
	u32 port;

	if (c->list_holds & LIST_PREFIXES) {
		struct address a = { .bits = 128 };

		memcpy(a.bytes, p->source, 16);
		if (map_lookup(&allowed, &a))
			return 1;
		memcpy(a.bytes, p->destination, 16);
		if (map_lookup(&allowed, &a))
			return 1;
	}
	if (!p->ports || !(c->list_holds & LIST_PORTS))
		return 0;
	port = (u32)p->protocol << 16 | p->destination_port;
	if (map_lookup(&allowed_ports, &port))
		return 1;
	port = (u32)p->protocol << 16 | p->source_port;
	return map_lookup(&allowed_ports, &port) != NULL;
}

/* Whether a packet of a flow that is not in the table keeps to the limits of new flows; enters it if so. */
INLINE int admit_new(struct throttle_control *c, struct throttle_state *s, struct packet *p, u64 flow, u64 t,
		     struct throttle_counts *n)
{
	struct flow entry = { .seen_ns = t, .generation = c->generation };
	u64 prefix = prefix_of(p);
	u32 slot = mix(0, prefix) >> (64 - PREFIX_SLOTS_BITS);
	u64 *of_prefix = map_lookup(&begun, &slot);

	n->new_flows++;
	if (of_prefix)
		__sync_fetch_and_add(of_prefix, 1);
	if (c->prefix_interval_ns) {
		u64 *next = map_lookup(&prefixes, &prefix);

		if (next) {
			if (!is_due(next, t, c->prefix_interval_ns, c->prefix_depth_ns))
				return V_SHED_PREFIX;
		} else {
			u64 due = t + c->prefix_interval_ns;

			if (map_update(&prefixes, &prefix, &due, ANY))
				n->table_failed++;
		}
	}
	if (c->all_interval_ns && !is_due(&s->all_next_ns, t, c->all_interval_ns, c->all_depth_ns))
		return V_SHED_ALL;
	if (map_update(&flows, &flow, &entry, ANY))
		n->table_failed++;
	return V_NEW;
}

/* The budget of the CPUs that share an account. */
INLINE u64 together(u64 budget, u32 victims)
{
	u64 sum = budget * victims;

	return sum < CHARGED_MAX ? sum : CHARGED_MAX;
}

INLINE int decide(struct throttle_control *c, struct throttle_state *s, struct throttle_counts *n, u32 cpu,
		  void *data, void *end)
{
	struct packet p = {};
	u64 t = now(c, s), window = t / BUCKET_NS, charged, budget = c->budget_ns, unknown = c->unknown_budget_ns;
	u64 *feed = map_lookup(&feeds, &cpu);
	u32 victim;
	struct charge *g;
	int verdict;
	struct flow *seen;
	u64 flow;

	if (t > c->deadline_ns)
		return V_EXPIRED;
	victim = feed ? *feed & FEEDS_CPU : 0;
	g = map_lookup(&charges, &victim);
	if (!feed || !g)
		return V_EXPIRED;
	if (*feed & FEEDS_ALL) {
		budget = together(budget, c->victims);
		unknown = together(unknown, c->victims);
	}
	verdict = parse(data, end, &p);
	if (verdict != V_NEW) {
		charge_exempt(c, g, window);
		return verdict;
	}
	flow = flow_of(&p, seed_of(c, s));
	seen = map_lookup(&flows, &flow);
	if (seen) {
		if (seen->generation != c->generation) {
			seen->is_allowed = is_allowed(c, &p);
			seen->generation = c->generation;
		}
		if (seen->is_allowed) {
			charge_exempt(c, g, window);
			return V_ALLOWED;
		}
		verdict = !c->incident_ns || seen->seen_ns < c->incident_ns ? V_KNOWN : V_NEW;
	} else {
		if (is_allowed(c, &p)) {
			struct flow entry = { .seen_ns = t, .generation = c->generation, .is_allowed = 1 };

			if (map_update(&flows, &flow, &entry, ANY))
				n->table_failed++;
			charge_exempt(c, g, window);
			return V_ALLOWED;
		}
		/* A window that is spent admits no new flow, so that none takes a place in the tables for nothing. */
		if (budget && charged_in(g, window) + c->cost_ns > unknown)
			return V_SHED_CHARGED;
		verdict = admit_new(c, s, &p, flow, t, n);
		if (verdict != V_NEW)
			return verdict;
	}
	if (!budget) {
		charge(g, window, c->cost_ns);
		return verdict;
	}
	/* Known flows may use the whole budget, others the part that the controller gives them. */
	charged = charged_in(g, window) + c->cost_ns;
	if (charged > (verdict == V_KNOWN ? budget : unknown))
		return V_SHED_CHARGED;
	/* Measured time is the CPU's, for all interfaces: it counts if this one's charge is a good part of it. */
	if (c->is_measured && !c->ignores_exempt && charged >= budget / 4 && is_victim_over(c, *feed, t, window))
		return V_SHED_MEASURED;
	charge(g, window, c->cost_ns);
	return verdict;
}

SEC("xdp")
int throttle(struct xdp_md *ctx)
{
	void *data = (void *)(u64)ctx->data, *end = (void *)(u64)ctx->data_end;
	u32 zero = 0, cpu = smp_processor_id();
	struct throttle_control *c = map_lookup(&control, &zero);
	struct throttle_state *s = map_lookup(&state, &zero);
	struct throttle_counts *n = map_lookup(&counts, &cpu);
	u32 verdict;

	if (!c || !s || !n)
		return XDP_PASS;
	verdict = decide(c, s, n, cpu, data, end);
	if (verdict >= VERDICTS)
		return XDP_PASS;
	n->packets[verdict]++;
	n->bytes[verdict] += end - data;
	return verdict >= V_SHED_PREFIX ? XDP_DROP : XDP_PASS;
}

LICENSE;

#endif
