// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Heads of packets at a tcx link, for a second and a half of an incident: who floods.
 *
 * The first heads are of all packets, which shows the largest flow. Those after them are of some flows with all their
 * packets, chosen by a hash: only that distinguishes new flows from old ones.
 */
#include "helpers.h"
#include "packets.h"

#define HEADS_MAX 16384
#define HEADS_OF_ALL 4096
#define NEXT -1

struct head {
	u64 at_ns;
	u8 source[16], destination[16];
	u32 ports;
	u16 length;
	u8 protocol;
	u8 is_ipv6;
};

/* `probe::heads` has the same layout. */
struct heads_control {
	u64 until_ns; /* nothing is sampled after this time */
	u64 seed; /* of the hash of flows */
	u64 mask; /* flows are sampled whose hash has none of these bits */
	u64 written; /* heads, also those that had no place any more */
	u64 seen; /* packets */
};

struct __sk_buff {
	u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority;
	u32 ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid, data, data_end;
};

struct {
	INTEGER(type, MAP_ARRAY);
	INTEGER(map_flags, F_MMAPABLE);
	INTEGER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct heads_control);
} control SEC(".maps");

struct {
	INTEGER(type, MAP_ARRAY);
	INTEGER(map_flags, F_MMAPABLE);
	INTEGER(max_entries, HEADS_MAX);
	TYPE(key, u32);
	TYPE(value, struct head);
} heads SEC(".maps");

SEC("classifier")
int sample(struct __sk_buff *skb)
{
	void *data = (void *)(u64)skb->data, *end = (void *)(u64)skb->data_end;
	struct packet p = {};
	u32 zero = 0, place;
	struct heads_control *c = map_lookup(&control, &zero);
	struct head *h;
	u64 now;

	if (!c)
		return NEXT;
	now = ktime_ns();
	if (now > c->until_ns)
		return NEXT;
	__sync_fetch_and_add(&c->seen, 1);
	if (parse(data, end, &p) != V_NEW)
		return NEXT;
	if (*(volatile u64 *)&c->written >= HEADS_OF_ALL && (flow_of(&p, c->seed) >> 32 & c->mask))
		return NEXT;
	if (*(volatile u64 *)&c->written >= HEADS_MAX)
		return NEXT;
	place = (u32)__sync_fetch_and_add(&c->written, 1);
	h = map_lookup(&heads, &place);
	if (!h)
		return NEXT;
	memcpy(h->source, p.source, 16);
	memcpy(h->destination, p.destination, 16);
	h->ports = p.ports;
	h->length = skb->len < 65535 ? skb->len : 65535;
	h->protocol = p.protocol;
	h->is_ipv6 = p.is_ipv6;
	h->at_ns = now;
	return NEXT;
}

LICENSE;
