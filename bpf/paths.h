/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Paths of the kernel's files, walked from the last component to the process' root, without bpf_d_path. */
#ifndef GABION_PATHS_H
#define GABION_PATHS_H

#define NO_BASE 255
#define ENTRY_BYTES 128 /* of an entry of a folder: its parent, the place of its name, and a short name */
#define SHORT_NAME 40 /* bytes of a name inside of an entry */

/* The place of the loops' memory, as their context must be on the stack. */
struct place {
	struct scratch *s;
};

/* Where the next component goes. */
INLINE u8 *walk_out(struct scratch *s)
{
	return s->out + (s->walk.start & OUT_MASK) + (s->walk.used & (PATH_BYTES - 1));
}

/*
 * One step: a component, or from the root of a mount to the place where it is mounted. An entry is copied at once with
 * its short name, since each call of a helper costs more than the bytes.
 */
static long walk_step(u32 index, struct place *place)
{
	struct walk *w = &place->s->walk;
	u64 parent, name, inside;
	u32 name_bytes;
	u8 *out;
	long n;

	if (w->dentry == w->base_dentry && w->mount == w->base_mount && w->base_depth == NO_BASE)
		w->base_depth = w->depth;
	if (w->dentry == w->root_dentry && w->mount == w->root_mount)
		return 1;
	if (w->dentry == w->mount_root) {
		struct mount *mount = (void *)(w->mount - FIELD_OFFSET(struct mount, mnt)), *above;
		struct vfsmount *vfs;

		above = READ(mount, mnt_parent);
		if (above == mount || !above)
			return 1;
		w->dentry = (u64)READ(mount, mnt_mountpoint);
		w->mount = (u64)above + FIELD_OFFSET(struct mount, mnt);
		vfs = (void *)w->mount;
		w->mount_root = (u64)READ(vfs, mnt_root);
		return 0;
	}
	if (w->depth >= PATH_COMPONENTS) {
		w->flags |= FLAG_PATH_CUT;
		return 1;
	}
	if (probe_read_kernel(w->entry, ENTRY_BYTES, (void *)w->dentry)) {
		w->flags |= FLAG_PATH_CUT;
		return 1;
	}
	parent = *(u64 *)(w->entry + FIELD_OFFSET(struct dentry, d_parent));
	name = *(u64 *)(w->entry + FIELD_OFFSET(struct dentry, d_name.name));
	name_bytes = *(u32 *)(w->entry + FIELD_OFFSET(struct dentry, d_name.len));
	inside = name - w->dentry;
	out = walk_out(place->s);
	if (inside <= ENTRY_BYTES - SHORT_NAME && name_bytes < SHORT_NAME) {
		const u8 *from = w->entry + inside;

		for (u32 i = 0; i < SHORT_NAME; i += 8)
			*(u64 *)(out + i) = *(const u64 *)(from + i);
		out[name_bytes] = 0;
		n = name_bytes + 1;
	} else {
		n = probe_read_kernel_str(out, 256, (void *)name);
	}
	if (n <= 1 || w->used + n >= PATH_BYTES - 256) {
		w->flags |= FLAG_PATH_CUT;
		return 1;
	}
	w->used += n;
	w->depth++;
	if (parent == w->dentry) {
		w->flags |= FLAG_PSEUDO;
		return 1;
	}
	w->dentry = parent;
	return 0;
}

/*
 * Walks from the entry in `s->walk` and writes the components, the last one first, each with a NUL; one more NUL at the
 * end makes a reversed path as long as the path. Returns the number of bytes.
 */
GLOBAL u32 walk(struct scratch *s)
{
	struct fs_struct *fs = current_task()->fs;
	struct place place = { .s = s };
	struct vfsmount *vfs;
	struct walk *w;
	u8 *out;

	if (!s)
		return 0;
	w = &s->walk;
	vfs = (void *)w->mount;
	w->mount_root = (u64)READ(vfs, mnt_root);
	w->root_dentry = fs ? (u64)fs->root.dentry : 0;
	w->root_mount = fs ? (u64)fs->root.mnt : 0;
	w->start = s->used;
	w->used = 0;
	w->depth = 0;
	w->base_depth = NO_BASE;
	w->flags = 0;
	loop(PATH_STEPS, walk_step, &place, 0);
	out = walk_out(s);
	out[0] = 0;
	out[1] = 0;
	return (w->used & (PATH_BYTES - 1)) + (w->used ? 1 : 2); /* the root itself has no component */
}

/* The file of a descriptor of this process, or NULL. */
INLINE struct file *file_of(s64 descriptor)
{
	struct files_struct *files = current_task()->files;
	struct fdtable *table;
	struct file **slots, *file;

	if (!files || descriptor < 0)
		return NULL;
	table = files->fdt;
	if (!table || descriptor >= table->max_fds)
		return NULL;
	slots = table->fd;
	if (probe_read_kernel(&file, sizeof(file), slots + descriptor))
		return NULL;
	return file;
}

/* The number of a device as programs see it. */
INLINE u32 device_of(u32 device)
{
	u32 major = device >> 20, minor = device & 0xfffff;

	return (minor & 0xff) | major << 8 | (minor & ~0xffU) << 12;
}

#define OVERLAYFS_MAGIC 0x794c7630

/* 1: the upper layer of an overlay, 2: the lower one, 0: no overlay. */
INLINE int layer_of(struct inode *inode)
{
	struct super_block *sb = READ(inode, i_sb);
	struct ovl_inode *overlay;

	if (READ(sb, s_magic) != OVERLAYFS_MAGIC)
		return 0;
	overlay = (void *)((u64)inode - FIELD_OFFSET(struct ovl_inode, vfs_inode));
	return READ(overlay, __upperdentry) ? 1 : 2;
}

#endif
