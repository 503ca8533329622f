/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* What events of programs and threads report: numbers in namespaces, memory, groups. */
#ifndef GABION_PROCESS_H
#define GABION_PROCESS_H

#define PIDTYPE_PGID 2
#define UPID_BYTES 16

/* A thread or group in the namespace at a level; 0 is the host's. */
INLINE s64 number_at(struct pid *pid, u32 level)
{
	struct upid *upid;

	if (!pid)
		return -1;
	upid = (void *)((u64)pid + FIELD_OFFSET(struct pid, numbers) + level * UPID_BYTES);
	return READ(upid, nr);
}

/* The namespace of processes in which a thread is. */
INLINE struct pid_namespace *pid_namespace_of(struct pid *pid)
{
	struct upid *upid;
	u32 level;

	if (!pid)
		return NULL;
	level = READ(pid, level);
	upid = (void *)((u64)pid + FIELD_OFFSET(struct pid, numbers) + level * UPID_BYTES);
	return READ(upid, ns);
}

INLINE u32 terminal_of(struct task_struct *task)
{
	struct tty_struct *tty = task->signal->tty;
	struct tty_driver *driver;

	if (!tty)
		return 0;
	driver = READ(tty, driver);
	return device_of((u32)READ(driver, major) << 20 |
			 (u32)(READ(driver, minor_start) + READ(tty, index)));
}

#define EXE_WRITABLE 1
#define EXE_UPPER_LAYER 2
#define EXE_FROM_MEMFD 4
#define EXE_LOWER_LAYER 8
#define CAP_DAC_OVERRIDE 1

INLINE u32 exe_flags_of(struct task_struct *task, struct file *exe)
{
	struct inode *inode = READ(exe, f_inode);
	struct dentry *dentry = READ(exe, f_path.dentry);
	const unsigned char *name = READ(dentry, d_name.name);
	u32 mode = READ(inode, i_mode), flags = 0;
	int layer = layer_of(inode);
	char start[8] = {};

	if (layer)
		flags |= layer == 1 ? EXE_UPPER_LAYER : EXE_LOWER_LAYER;
	if (probe_read_kernel_str(start, sizeof(start), name) == sizeof(start) && start[0] == 'm' &&
	    start[1] == 'e' && start[2] == 'm' && start[3] == 'f' && start[4] == 'd' && start[5] == ':')
		flags |= EXE_FROM_MEMFD;
	if ((task->cred->cap_effective.val >> CAP_DAC_OVERRIDE & 1) ||
	    (READ(inode, i_uid.val) == task->cred->euid.val ? mode & 0200 :
	     READ(inode, i_gid.val) == task->cred->egid.val ? mode & 020 : mode & 02))
		flags |= EXE_WRITABLE;
	return flags;
}

static long group_step(u32 index, struct place *place)
{
	struct walk *w = &place->s->walk;
	struct kernfs_node *node = (void *)w->node, *parent = READ(node, __parent);
	long n;

	if (!parent)
		return 1;
	n = probe_read_kernel_str(walk_out(place->s), 256, READ(node, name));
	if (n <= 0 || w->used + n >= PATH_BYTES - 512)
		return 1;
	w->used += n;
	w->node = (u64)parent;
	return 0;
}

/*
 * Appends the path of a control group: "NAME=", the components from the last one, an empty one. A path that is that of
 * the group before is written as a byte 1.
 */
INLINE void add_group(struct scratch *s, struct css_set *set, u64 index, u64 name, u32 name_bytes)
{
	struct walk *w = &s->walk;
	struct cgroup_subsys_state *state = NULL;
	struct cgroup *cgroup;
	struct place place = { .s = s };

	if (w->used >= PATH_BYTES - 600)
		return;
	if (probe_read_kernel(&state, sizeof(state),
			      (void *)((u64)set + FIELD_OFFSET(struct css_set, subsys) + index * 8)) || !state)
		return;
	cgroup = READ(state, cgroup);
	*(u64 *)walk_out(s) = name;
	w->used += name_bytes;
	w->node = (u64)READ(cgroup, kn);
	if (w->node == w->last_node) {
		*walk_out(s) = 1;
		w->used++;
		return;
	}
	w->last_node = w->node;
	loop(32, group_step, &place, 0);
	*walk_out(s) = 0;
	w->used++;
}

#endif
