/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The throttle: packet work of an interface gets a part of a CPU, and what exceeds it is dropped before it costs.
 *
 * Order of the checks: what is never dropped, the allow-list, the limits of new flows (of the source's prefix, then of
 * all), the budget of the present 4 ms. Each packet is charged when it is admitted, as a thousand packets may wait in
 * a queue before their time is measured; measured time is the second check. 1 s after the last heartbeat all pass.
 *
 * `now()` comes from the file that includes this one, so that tests have a clock of their own.
 */
#ifndef GABION_THROTTLE_H
#define GABION_THROTTLE_H

#include "helpers.h"
#include "softirq.h"

#define XDP_DROP 1
#define XDP_PASS 2
#define VICTIMS_MAX 16
#define FLOWS_MAX 65536
#define PREFIXES_MAX 16384

/* Written by the controller; read for each packet. `probe::throttle` has the same layout. */
struct throttle_control {
	u64 deadline_ns; /* until when packets may be dropped; each heartbeat moves it */
	u64 incident_ns; /* flows first seen before are known; 0: there is no incident, all seen ones are known */
	u64 seed; /* of the hash of flows */
	u32 budget_ns; /* packet work in 4 ms of all victims together; 0: no budget */
	u32 cost_ns; /* charged for each admitted packet */
	u64 prefix_interval_ns; /* between new flows of a prefix; 0: no limit */
	u64 prefix_depth_ns;
	u64 all_interval_ns; /* between new flows; 0: no limit */
	u64 all_depth_ns;
	u32 victims; /* how many of the next are used */
	u32 is_measured; /* whether `live` holds the measured time */
	u16 victim[VICTIMS_MAX]; /* CPUs whose time the interface's packets take */
	u64 step_ns; /* of the test's clock */
	u32 unknown_budget_ns; /* the part of the budget that flows which are not known may use */
	u32 generation; /* of the allow-list */
};

/* Shared by all CPUs that run the program. */
struct throttle_state {
	u64 charged; /* window << 24 | ns charged in it */
	u64 unused[7];
	u64 all_next_ns; /* when the next new flow is due */
	u64 unused2[7];
	u64 clock_ns; /* the test's clock */
};

enum verdict {
	V_UNPARSED, /* the first five are never dropped */
	V_ARP,
	V_ND,
	V_ICMP_ERROR,
	V_FRAGMENT,
	V_ALLOWED,
	V_KNOWN,
	V_NEW,
	V_EXPIRED, /* no heartbeat */
	V_SHED_PREFIX,
	V_SHED_ALL,
	V_SHED_CHARGED,
	V_SHED_MEASURED,
	VERDICTS,
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

/* What a packet is. */
struct packet {
	u8 source[16], destination[16];
	u32 ports;
	u16 source_port, destination_port;
	u8 protocol;
	u8 is_ipv6;
	u8 class; /* V_UNPARSED..V_FRAGMENT, or V_NEW for all that may be dropped */
};

#define AT(type, offset)                                       \
	({                                                     \
		type *at__ = (type *)(data + (offset));        \
		if ((void *)(at__ + 1) > end)                  \
			return V_UNPARSED;                     \
		at__;                                          \
	})

INLINE u16 net16(const u8 *bytes)
{
	return (u16)(bytes[0] << 8 | bytes[1]);
}

struct four {
	u8 bytes[4];
};

struct eight {
	u8 bytes[8];
};

struct ethernet {
	u8 destination[6], source[6];
	u8 type[2];
};

struct ipv4 {
	u8 version_length, service;
	u8 total[2], id[2], fragment[2];
	u8 ttl, protocol;
	u8 sum[2];
	u8 source[4], destination[4];
};

struct ipv6 {
	u8 head[4];
	u8 length[2];
	u8 next, hops;
	u8 source[16], destination[16];
};

#define TCP 6
#define UDP 17
#define ICMPV6 58
#define SCTP 132

INLINE int parse_ports(void *data, void *end, u32 at, struct packet *p)
{
	if (p->protocol == TCP || p->protocol == UDP || p->protocol == SCTP) {
		struct four *ports = AT(struct four, at);

		p->source_port = net16(ports->bytes);
		p->destination_port = net16(ports->bytes + 2);
		p->ports = (u32)p->source_port << 16 | p->destination_port;
	}
	return V_NEW;
}

/* The class of a packet: V_NEW for those that may be dropped. */
static int parse(void *data, void *end, struct packet *p)
{
	struct ethernet *eth = AT(struct ethernet, 0);
	u16 type = net16(eth->type);
	u32 at = sizeof(*eth);

#pragma clang loop unroll(full)
	for (int i = 0; i < 2; i++) {
		if (type == 0x8100 || type == 0x88a8) {
			struct four *tag = AT(struct four, at);

			type = net16(tag->bytes + 2);
			at += 4;
		}
	}
	if (type == 0x0806)
		return V_ARP;
	if (type == 0x0800) {
		struct ipv4 *ip = AT(struct ipv4, at);
		u32 header = (ip->version_length & 15) * 4;

		if (ip->version_length >> 4 != 4 || header < 20)
			return V_UNPARSED;
		p->source[10] = p->source[11] = p->destination[10] = p->destination[11] = 0xff;
		memcpy(p->source + 12, ip->source, 4);
		memcpy(p->destination + 12, ip->destination, 4);
		p->protocol = ip->protocol;
		if (net16(ip->fragment) & 0x1fff)
			return V_FRAGMENT;
		return parse_ports(data, end, at + header, p);
	}
	if (type == 0x86dd) {
		struct ipv6 *ip = AT(struct ipv6, at);
		u8 next = ip->next;

		if (ip->head[0] >> 4 != 6)
			return V_UNPARSED;
		p->is_ipv6 = 1;
		memcpy(p->source, ip->source, 16);
		memcpy(p->destination, ip->destination, 16);
		at += sizeof(*ip);
#pragma clang loop unroll(disable)
		for (int i = 0; i < 8; i++) {
			struct eight *extension;

			if (next != 0 && next != 43 && next != 44 && next != 51 && next != 60 && next != 135) {
				p->protocol = next;
				if (next == ICMPV6) {
					struct four *icmp = AT(struct four, at);

					if (icmp->bytes[0] >= 1 && icmp->bytes[0] <= 4)
						return V_ICMP_ERROR;
					if (icmp->bytes[0] >= 130 && icmp->bytes[0] <= 137)
						return V_ND;
				}
				return parse_ports(data, end, at, p);
			}
			extension = AT(struct eight, at);
			if (next == 44) {
				if (net16(extension->bytes + 2) & 0xfff8)
					return V_FRAGMENT;
				at += 8;
			} else if (next == 51) {
				at += (extension->bytes[1] + 2) * 4;
			} else {
				at += (extension->bytes[1] + 1) * 8;
			}
			if (at > 2048)
				return V_UNPARSED;
			next = extension->bytes[0];
		}
	}
	return V_UNPARSED;
}

INLINE u64 mix(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 29;
}

INLINE u64 flow_of(struct packet *p, u64 seed)
{
	u64 hash = seed;

	hash = mix(hash, *(u64 *)p->source);
	hash = mix(hash, *(u64 *)(p->source + 8));
	hash = mix(hash, *(u64 *)p->destination);
	hash = mix(hash, *(u64 *)(p->destination + 8));
	return mix(hash, (u64)p->ports << 8 | p->protocol);
}

/* The source's /24, or /56 of IPv6, as a key. */
INLINE u64 prefix_of(struct packet *p)
{
	if (p->is_ipv6)
		return *(u64 *)p->source & 0x00ffffffffffffffULL;
	return 0xff00000000000000ULL | p->source[12] | p->source[13] << 8 | p->source[14] << 16;
}

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
INLINE u64 charge(struct throttle_state *s, u64 window, u64 cost)
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

INLINE u64 charged_in(struct throttle_state *s, u64 window)
{
	u64 old = *(volatile u64 *)&s->charged;

	return old >> 24 == (window & 0xffffffffffULL) ? old & 0xffffff : 0;
}

/* The measured packet work of the victims in this window. */
INLINE u64 used_in(struct throttle_control *c, u64 t, u64 window)
{
	u32 zero = 0;
	void *array = map_lookup(&live, &zero);
	u64 start = window * BUCKET_NS, used = 0;

	if (!array)
		return 0;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < VICTIMS_MAX; i++) {
		u32 cpu;
		struct softirq_live *l;

		if (i >= c->victims)
			break;
		cpu = c->victim[i];
		l = map_lookup(array, &cpu);
		if (!l)
			continue;
		if (l->window == window)
			used += l->used_ns;
		if (l->vector == VECTOR_NET_RX && l->entry_ns < t)
			used += t - (l->entry_ns > start ? l->entry_ns : start);
	}
	return used;
}

INLINE int is_allowed(struct packet *p)
{
	struct address a = { .bits = 128 };
	u32 port;

	memcpy(a.bytes, p->source, 16);
	if (map_lookup(&allowed, &a))
		return 1;
	memcpy(a.bytes, p->destination, 16);
	if (map_lookup(&allowed, &a))
		return 1;
	if (!p->ports)
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

	n->new_flows++;
	if (c->prefix_interval_ns) {
		u64 prefix = prefix_of(p);
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

INLINE int decide(struct throttle_control *c, struct throttle_state *s, struct throttle_counts *n, void *data,
		  void *end)
{
	struct packet p = {};
	u64 t = now(c, s), window = t / BUCKET_NS, charged, budget = c->budget_ns;
	int verdict;
	struct flow *seen;
	u64 flow;

	if (t > c->deadline_ns)
		return V_EXPIRED;
	verdict = parse(data, end, &p);
	if (verdict != V_NEW) {
		charge(s, window, c->cost_ns);
		return verdict;
	}
	flow = flow_of(&p, c->seed);
	seen = map_lookup(&flows, &flow);
	if (seen) {
		if (seen->generation != c->generation) {
			seen->is_allowed = is_allowed(&p);
			seen->generation = c->generation;
		}
		if (seen->is_allowed) {
			charge(s, window, c->cost_ns);
			return V_ALLOWED;
		}
		verdict = !c->incident_ns || seen->seen_ns < c->incident_ns ? V_KNOWN : V_NEW;
	} else {
		if (is_allowed(&p)) {
			struct flow entry = { .seen_ns = t, .generation = c->generation, .is_allowed = 1 };

			if (map_update(&flows, &flow, &entry, ANY))
				n->table_failed++;
			charge(s, window, c->cost_ns);
			return V_ALLOWED;
		}
		/* A window that is spent admits no new flow, so that none takes a place in the tables for nothing. */
		if (budget && charged_in(s, window) + c->cost_ns > c->unknown_budget_ns)
			return V_SHED_CHARGED;
		verdict = admit_new(c, s, &p, flow, t, n);
		if (verdict != V_NEW)
			return verdict;
	}
	if (!budget) {
		charge(s, window, c->cost_ns);
		return verdict;
	}
	/* Known flows may use the whole budget, others the part that the controller gives them. */
	charged = charged_in(s, window) + c->cost_ns;
	if (charged > (verdict == V_KNOWN ? budget : c->unknown_budget_ns))
		return V_SHED_CHARGED;
	/* Measured time is the CPU's, for all interfaces: it counts if this one's charge is a good part of it. */
	if (c->is_measured && charged >= budget / 4 && used_in(c, t, window) > budget)
		return V_SHED_MEASURED;
	charge(s, window, c->cost_ns);
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
	verdict = decide(c, s, n, data, end);
	if (verdict >= VERDICTS)
		return XDP_PASS;
	n->packets[verdict]++;
	n->bytes[verdict] += end - data;
	return verdict >= V_SHED_PREFIX ? XDP_DROP : XDP_PASS;
}

LICENSE;

#endif
