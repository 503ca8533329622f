/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Records of open, creat, openat and openat2. They are frequent and long, so their values are written one after the
 * other instead of by a recipe, and each part of the kernel's file is read once. The values and their order are those of
 * `recipes.tsv`.
 */
#ifndef GABION_OPENS_H
#define GABION_OPENS_H

/* What the kernel's file says. */
struct opened {
	u64 inode;
	struct path path;
	u32 device;
	u32 flags; /* upper bits of the flags of an open */
};

INLINE int read_opened(struct file *file, struct opened *o)
{
	struct inode *inode;
	struct super_block *sb;

	if (!file)
		return 0;
	inode = READ(file, f_inode);
	if (!inode)
		return 0;
	o->path = READ(file, f_path);
	o->inode = READ(inode, i_ino);
	sb = READ(inode, i_sb);
	o->device = device_of(READ(sb, s_dev));
	o->flags = READ(file, f_mode) & FMODE_CREATED ? 1U << 31 : 0;
	if (READ(sb, s_magic) == OVERLAYFS_MAGIC)
		o->flags |= layer_of(inode) == 1 ? 1U << 30 : 1U << 29;
	return 1;
}

/* After a value of any size: the verifier must not follow each of them. */
#define ADVANCE(n)                        \
	do {                              \
		s->used = at + (n);       \
		forget_memory();          \
		at = s->used & OUT_MASK;  \
	} while (0)

/* Writes the length of the next value. */
#define LENGTH(n)                                                                    \
	do {                                                                         \
		*(u16 *)(s->out + sizeof(struct head) + 2 * (i & 63)) = (u16)(n);    \
		i++;                                                                 \
	} while (0)

/* Writes a value of a fixed size. */
#define FIXED(type, value)                                    \
	do {                                                  \
		*(type *)(s->out + (at & OUT_MASK)) = (value); \
		at += sizeof(type);                           \
		LENGTH(sizeof(type));                         \
	} while (0)

/* Writes all values of an open and sets `s->used`. */
NOINLINE u32 put_open(struct building *b, u32 kind)
{
	struct scratch *s = b->s;
	struct head *h = (void *)s->out;
	u32 at = s->used, i = 0, n, flags, mode;
	u32 is_at = kind >= OPEN_OPENAT;
	u64 resolve = 0, base_dentry = 0, base_mount = 0;
	struct opened o = {};
	long read;

	FIXED(s64, s->result);
	if (is_at)
		FIXED(s64, (s32)s->args[0]);
	read = probe_read_user_str(s->out + (at & OUT_MASK), PATH_BYTES, (void *)s->args[is_at]);
	n = check_name(s, b->e, s->args[is_at], read > 0 ? (u32)read : 0, at) & (2 * PATH_BYTES - 1);
	s->is_absolute = n && s->out[at & OUT_MASK] == '/';
	ADVANCE(n);
	LENGTH(n);

	if (kind == OPEN_CREAT) {
		flags = 01101;
		mode = (u32)s->args[1];
	} else if (kind == OPEN_OPENAT2) {
		struct {
			u64 flags, mode, resolve;
		} how = {};

		probe_read_user(&how, sizeof(how), (void *)s->args[2]);
		flags = (u32)how.flags & 0x1fffffff;
		mode = (u32)how.mode;
		resolve = how.resolve;
	} else {
		flags = (u32)s->args[1 + is_at] & 0x1fffffff;
		mode = (u32)s->args[2 + is_at];
	}
	if (s->result >= 0 && !read_opened(file_of(s->result), &o))
		o.path.dentry = NULL;
	flags |= o.flags;
	if (kind != OPEN_CREAT)
		FIXED(u32, flags);
	FIXED(u32, mode);
	if (kind == OPEN_OPENAT2)
		FIXED(u32, (u32)resolve);
	if (o.path.dentry) {
		FIXED(u32, o.device);
		FIXED(u64, o.inode);
	} else {
		LENGTH(0);
		LENGTH(0);
	}
	if (kind == OPEN_CREAT)
		FIXED(u32, flags);

	n = 0;
	if (h->toctou == TOCTOU_MISMATCH && b->e) {
		n = (u32)b->e->bytes & (NAME_BYTES - 1);
		if (probe_read_kernel(s->out + (at & OUT_MASK), n, b->e->name))
			n = 0;
	}
	ADVANCE(n);
	LENGTH(n);
	if (!o.path.dentry) {
		LENGTH(0);
		LENGTH(0);
		LENGTH(0);
		s->used = at & OUT_MASK;
		return 0;
	}
	/* The folder of a relative name: components of the path below it, or its own path if there are none. */
	if (!s->is_absolute)
		find_folder(is_at ? s->args[0] : (u64)-100, &base_dentry, &base_mount);
	s->used = at & OUT_MASK;
	s->walk.base_dentry = base_dentry;
	s->walk.base_mount = base_mount;
	s->walk.dentry = (u64)o.path.dentry;
	s->walk.mount = (u64)o.path.mnt;
	n = walk(s) & (2 * PATH_BYTES - 1);
	s->base_depth = s->walk.base_depth;
	h->flags |= (u8)s->walk.flags;
	ADVANCE(n);
	LENGTH(n);
	n = 0;
	if (s->base_depth == NO_BASE && base_dentry) {
		s->used = at & OUT_MASK;
		s->walk.base_dentry = 0;
		s->walk.base_mount = 0;
		s->walk.dentry = base_dentry;
		s->walk.mount = base_mount;
		n = walk(s) & (2 * PATH_BYTES - 1);
	}
	ADVANCE(n);
	LENGTH(n);
	FIXED(u8, (u8)s->base_depth);
	s->used = at & OUT_MASK;
	return 0;
}

#endif
