/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Addresses and both ends of sockets, in the form that the event table has for them. */
#ifndef GABION_SOCKETS_H
#define GABION_SOCKETS_H

#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define EINPROGRESS 115

/* The address of a socket distinguishes it from others, but must not leave the kernel: an odd factor hides it and keeps
 * addresses different. */
CONSTANT u64 pointer_factor = 1;

INLINE u64 hidden(void *pointer)
{
	return pointer ? (u64)pointer * pointer_factor : 0;
}

INLINE u16 host16(u16 n)
{
	return (u16)(n << 8 | n >> 8);
}

/* One end of a connection. */
struct end {
	u8 bytes[16];
	u16 port;
};

/* Writes a path of a unix address; names that begin with NUL are written without it. */
INLINE u32 put_unix_path(u8 *to, const char *from, u32 bytes)
{
	u32 skipped = bytes && !from[0] ? 1 : 0;
	long n = probe_read_kernel_str(to, 108, from + skipped);

	return n > 0 ? (u32)n : 0;
}

/* Rewrites the raw address `raw` of `bytes` bytes: family, then address and port, or a path. */
INLINE u32 put_address(u8 *to, const u8 *raw, u32 bytes)
{
	u16 family = *(const u16 *)raw;

	if (bytes < 2)
		return 0;
	to[0] = (u8)family;
	if (family == AF_INET && bytes >= 8) {
		*(u32 *)(to + 1) = *(const u32 *)(raw + 4);
		*(u16 *)(to + 5) = host16(*(const u16 *)(raw + 2));
		return 7;
	}
	if (family == AF_INET6 && bytes >= 24) {
		*(u64 *)(to + 1) = *(const u64 *)(raw + 8);
		*(u64 *)(to + 9) = *(const u64 *)(raw + 16);
		*(u16 *)(to + 17) = host16(*(const u16 *)(raw + 2));
		return 19;
	}
	if (family == AF_UNIX)
		return 1 + put_unix_path(to + 1, (const char *)raw + 2, bytes - 2);
	return 0;
}

/* The socket of a file, or NULL. */
INLINE struct sock *sock_of(struct file *file)
{
	struct inode *inode;
	struct socket *socket;

	if (!file)
		return NULL;
	inode = READ(file, f_inode);
	if ((READ(inode, i_mode) & S_IFMT) != S_IFSOCK)
		return NULL;
	socket = READ(file, private_data);
	return socket ? READ(socket, sk) : NULL;
}

/* The ends of a socket of IPv4, and the family, local port and other port of any. */
struct ends {
	u32 local, other;
	u16 family, port, other_port;
};

#define ENDS_BYTES 32
#define ENDS_AT(field) FIELD_OFFSET(struct sock_common, field)

/* They stand together at the beginning of a socket: one reading costs a fifth of five. */
INLINE struct ends ends_of(struct sock *sk)
{
	struct ends e = {};
	u8 head[ENDS_BYTES];

	if (ENDS_AT(skc_daddr) > ENDS_BYTES - 4 || ENDS_AT(skc_rcv_saddr) > ENDS_BYTES - 4 ||
	    ENDS_AT(skc_dport) > ENDS_BYTES - 4 || ENDS_AT(skc_num) > ENDS_BYTES - 4 ||
	    ENDS_AT(skc_family) > ENDS_BYTES - 4) { /* a kernel with another order */
		e.family = READ(sk, __sk_common.skc_family);
		e.local = READ(sk, __sk_common.skc_rcv_saddr);
		e.other = READ(sk, __sk_common.skc_daddr);
		e.port = READ(sk, __sk_common.skc_num);
		e.other_port = host16(READ(sk, __sk_common.skc_dport));
		return e;
	}
	if (probe_read_kernel(head, sizeof(head), __builtin_preserve_access_index(&sk->__sk_common)))
		return e;
	e.family = *(u16 *)(head + ENDS_AT(skc_family));
	e.local = *(u32 *)(head + ENDS_AT(skc_rcv_saddr));
	e.other = *(u32 *)(head + ENDS_AT(skc_daddr));
	e.port = *(u16 *)(head + ENDS_AT(skc_num));
	e.other_port = host16(*(u16 *)(head + ENDS_AT(skc_dport)));
	return e;
}

/*
 * Writes both ends. `raw` is the address that the caller named or was given, if the socket has none itself;
 * `is_in` says that the other end is the source.
 */
INLINE u32 put_tuple(u8 *to, struct sock *sk, const u8 *raw, u32 raw_bytes, int is_in)
{
	struct ends e = ends_of(sk);
	u16 family = e.family, port = e.port, other_port = e.other_port;

	to[0] = (u8)family;
	if (family == AF_INET) {
		u32 local = e.local, other = e.other;

		if (!other_port && raw_bytes >= 8 && *(const u16 *)raw == AF_INET) {
			other = *(const u32 *)(raw + 4);
			other_port = host16(*(const u16 *)(raw + 2));
		}
		*(u32 *)(to + 1) = is_in ? other : local;
		*(u16 *)(to + 5) = is_in ? other_port : port;
		*(u32 *)(to + 7) = is_in ? local : other;
		*(u16 *)(to + 11) = is_in ? port : other_port;
		return 13;
	}
	if (family == AF_INET6) {
		u8 *local_at = to + (is_in ? 19 : 1), *other_at = to + (is_in ? 1 : 19);

		probe_read_kernel(local_at, 16,
				  __builtin_preserve_access_index(&sk->__sk_common.skc_v6_rcv_saddr));
		*(u16 *)(local_at + 16) = port;
		if (!other_port && raw_bytes >= 24 && *(const u16 *)raw == AF_INET6) {
			*(u64 *)other_at = *(const u64 *)(raw + 8);
			*(u64 *)(other_at + 8) = *(const u64 *)(raw + 16);
			other_port = host16(*(const u16 *)(raw + 2));
		} else {
			probe_read_kernel(other_at, 16,
					  __builtin_preserve_access_index(&sk->__sk_common.skc_v6_daddr));
		}
		*(u16 *)(other_at + 16) = other_port;
		return 37;
	}
	if (family == AF_UNIX) {
		struct unix_sock *own = (void *)sk;
		struct sock *peer = READ(own, peer);
		struct unix_sock *named = is_in ? own : (void *)peer;
		struct unix_address *address = named ? READ(named, addr) : NULL;
		long n = 0;

		*(u64 *)(to + 1) = hidden(is_in ? peer : sk);
		*(u64 *)(to + 9) = hidden(is_in ? sk : peer);
		to[17] = 0;
		if (address) {
			const char *path = (const char *)address +
					   FIELD_OFFSET(struct unix_address, name) + 2;
			char first = 0;

			probe_read_kernel(&first, 1, path);
			n = probe_read_kernel_str(to + 17, 108, path + (first ? 0 : 1));
		} else if (raw_bytes > 2 && *(const u16 *)raw == AF_UNIX) {
			n = put_unix_path(to + 17, (const char *)raw + 2, raw_bytes - 2);
		}
		return 17 + (n > 0 ? (u32)n : 1);
	}
	return 0;
}

#endif
