/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Packets as the guard's programs read them: VLAN tags, IPv4, IPv6 with extension headers, ports; and their flows. */
#ifndef GABION_PACKETS_H
#define GABION_PACKETS_H

#include "helpers.h"

/* What is decided about a packet; the parser gives the first five, or V_NEW. */
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

#endif
