/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The kinds of values: each writes at `to` and returns the number of bytes; none means unknown. They are inlined, so that
 * in native code, where the kind is a constant, only its own statements are left.
 */
#ifndef GABION_VALUES_H
#define GABION_VALUES_H

#define PUT(type, value)              \
	do {                          \
		*(type *)to = (value); \
		return sizeof(type);  \
	} while (0)

INLINE u32 put_argument(u8 *to, u64 value, u32 bytes)
{
	*(u64 *)to = value;
	return bytes & 15;
}

/* Sets the entry of a folder: the working one, or that of a descriptor. Returns 0 if there is none. */
INLINE int find_folder(u64 folder, u64 *dentry, u64 *mount)
{
	struct fs_struct *fs = current_task()->fs;
	struct file *file;

	if ((s32)folder == -100) {
		if (!fs)
			return 0;
		*dentry = (u64)fs->pwd.dentry;
		*mount = (u64)fs->pwd.mnt;
		return 1;
	}
	file = file_of((s32)folder);
	if (!file)
		return 0;
	*dentry = (u64)READ(file, f_path.dentry);
	*mount = (u64)READ(file, f_path.mnt);
	return 1;
}

/* Values of a successful open. */
INLINE u32 put_opened(struct building *b, u8 *to, u32 kind, u64 folder)
{
	struct scratch *s = b->s;
	struct head *h = (void *)s->out;
	struct file *file;
	struct inode *inode;
	struct super_block *sb;
	u64 dentry = 0, mount = 0;
	u32 n;

	if (s->result < 0)
		return 0;
	if (!s->file)
		s->file = (u64)file_of(s->result);
	file = (void *)s->file;
	if (!file)
		return 0;
	switch (kind) {
	case K_OPENED_INODE:
		inode = READ(file, f_inode);
		PUT(u64, READ(inode, i_ino));
	case K_OPENED_DEVICE:
		inode = READ(file, f_inode);
		sb = READ(inode, i_sb);
		PUT(u32, device_of(READ(sb, s_dev)));
	case K_BASE_DEPTH:
		PUT(u8, (u8)s->base_depth);
	case K_OPENED_PATH:
		find_folder(folder, &dentry, &mount);
		s->walk.base_dentry = dentry;
		s->walk.base_mount = mount;
		s->walk.dentry = (u64)READ(file, f_path.dentry);
		s->walk.mount = (u64)READ(file, f_path.mnt);
		n = walk(s);
		s->base_depth = s->walk.base_depth;
		h->flags |= (u8)s->walk.flags;
		return n;
	case K_BASE_PATH:
		/* The folder, where the file is not below it. An absolute name needs none. */
		if (s->base_depth != NO_BASE || s->is_absolute || !find_folder(folder, &dentry, &mount))
			return 0;
		s->walk.base_dentry = 0;
		s->walk.base_mount = 0;
		s->walk.dentry = dentry;
		s->walk.mount = mount;
		return walk(s);
	}
	return 0;
}

/* Values of the thread, its program and its memory. */
INLINE u32 put_process(struct building *b, u8 *to, u32 kind, u32 a)
{
	struct scratch *s = b->s;
	struct task_struct *task = current_task();
	struct mm_struct *mm = task->mm;
	struct pid *pid = task->thread_pid;
	struct file *exe;
	struct inode *inode;
	long n;

	switch (kind) {
	case K_TID:
		PUT(s64, task->pid);
	case K_PID:
		PUT(s64, task->tgid);
	case K_PTID:
		PUT(s64, task->real_parent->pid);
	case K_FD_LIMIT:
		PUT(u64, task->signal->rlim[7].rlim_cur);
	case K_FAULTS_MAJOR:
		PUT(u64, task->maj_flt);
	case K_FAULTS_MINOR:
		PUT(u64, task->min_flt);
	case K_COMM:
		n = probe_read_kernel_str(to, 16, task->comm);
		return n > 0 ? (u32)n : 0;
	case K_TTY:
		PUT(u32, terminal_of(task));
	case K_PGID:
		PUT(s64, number_at(task->signal->pids[PIDTYPE_PGID], 0));
	case K_VPGID:
		PUT(s64, pid ? number_at(task->signal->pids[PIDTYPE_PGID], pid->level) : -1);
	case K_VTID:
		PUT(s64, pid ? number_at(pid, pid->level) : -1);
	case K_VPID: {
		struct pid *leader = task->group_leader->thread_pid;

		PUT(s64, leader && pid ? number_at(leader, pid->level) : -1);
	}
	case K_PIDNS_START: {
		struct pid_namespace *ns = pid_namespace_of(pid);
		struct task_struct *first = ns ? READ(ns, child_reaper) : NULL;

		PUT(u64, first ? READ(first, start_boottime) : 0);
	}
	case K_LOGINUID:
		PUT(u32, task->loginuid.val);
	case K_UID:
		PUT(u32, task->cred->euid.val);
	case K_GID:
		PUT(u32, task->cred->egid.val);
	case K_CREDENTIAL:
		PUT(u32, a == 0 ? task->cred->uid.val : a == 1 ? task->cred->euid.val : a == 2 ? task->cred->suid.val :
			 a == 3 ? task->cred->gid.val : a == 4 ? task->cred->egid.val : task->cred->sgid.val);
	case K_CAP_INHERITABLE:
		PUT(u64, task->cred->cap_inheritable.val);
	case K_CAP_PERMITTED:
		PUT(u64, task->cred->cap_permitted.val);
	case K_CAP_EFFECTIVE:
		PUT(u64, task->cred->cap_effective.val);
	case K_CLONE_FLAGS: {
		struct pid_namespace *own = pid_namespace_of(pid);
		u64 flags = 0;

		if (a == 0)
			flags = s->args[0];
		else if (a == 1)
			probe_read_user(&flags, 8, (void *)s->args[0]);
		else if (a == 3)
			flags = 0x4100; /* CLONE_VFORK, CLONE_VM */
		/* The low byte is a signal; its first bit now says that the child has its own numbers. */
		flags &= 0xffffff00;
		if (own && READ(own, level))
			flags |= 1;
		else if (own && task->nsproxy && task->nsproxy->pid_ns_for_children != own)
			flags |= 1;
		PUT(u32, (u32)flags);
	}
	}
	if (!mm) /* a thread of the kernel, or one that has ended */
		return 0;
	switch (kind) {
	case K_VM_SIZE:
		PUT(u32, (u32)(mm->total_vm << 2));
	case K_VM_RSS:
		PUT(u32, (u32)((mm->rss_stat[0].count + mm->rss_stat[1].count + mm->rss_stat[3].count) << 2));
	case K_VM_SWAP:
		PUT(u32, (u32)(mm->rss_stat[2].count << 2));
	case K_EXE:
		n = probe_read_user_str(to, PATH_BYTES, (void *)mm->arg_start);
		s->exe_bytes = n > 0 ? (u32)n : 0;
		return s->exe_bytes;
	case K_ARGS:
	case K_ENV: {
		u64 from = kind == K_ENV ? mm->env_start : mm->arg_start + s->exe_bytes;
		u64 to_end = kind == K_ENV ? mm->env_end : mm->arg_end;
		u64 bytes = to_end > from ? to_end - from : 0;

		if (kind == K_ARGS && !s->exe_bytes)
			return 0;
		if (bytes > PATH_BYTES - 1)
			bytes = PATH_BYTES - 1;
		bytes &= PATH_BYTES - 1;
		if (!bytes || probe_read_user(to, (u32)bytes, (void *)from))
			return 0;
		to[(bytes - 1) & (PATH_BYTES - 1)] = 0; /* cut texts end too */
		return (u32)bytes;
	}
	case K_FILE_NAME: {
		/* The kernel puts the name as given behind the environment of the new program. */
		u64 from = mm->env_end;

		opaque(from); /* loads through different types must not become one instruction */
		if (s->result < 0)
			from = s->args[a & 3];
		n = probe_read_user_str(to, PATH_BYTES, (void *)from);
		return n > 0 ? (u32)n : 0;
	}
	}
	exe = mm->exe_file;
	if (!exe)
		return 0;
	inode = exe->f_inode;
	switch (kind) {
	case K_EXE_FLAGS:
		PUT(u32, exe_flags_of(task, exe));
	case K_EXE_INODE:
		PUT(u64, inode->i_ino);
	case K_EXE_CTIME:
		PUT(u64, (u64)inode->i_ctime_sec * 1000000000 + inode->i_ctime_nsec);
	case K_EXE_MTIME:
		PUT(u64, (u64)inode->i_mtime_sec * 1000000000 + inode->i_mtime_nsec);
	case K_EXE_PATH:
		s->walk.base_dentry = 0;
		s->walk.base_mount = 0;
		s->walk.dentry = (u64)exe->f_path.dentry;
		s->walk.mount = (u64)exe->f_path.mnt;
		return walk(s);
	}
	return 0;
}

GLOBAL u32 put_groups(struct scratch *s)
{
	struct css_set *set = current_task()->cgroups;

	if (!set || !s)
		return 0;
	s->walk.start = s->used;
	s->walk.used = 0;
	s->walk.last_node = 0;
	/* Names as numbers, the first letter in the lowest byte. */
	add_group(s, set, ENUM_VALUE(enum cgroup_subsys_id, cpuset_cgrp_id), 0x3d746573757063ULL, 7);
	add_group(s, set, ENUM_VALUE(enum cgroup_subsys_id, cpu_cgrp_id), 0x3d757063ULL, 4);
	add_group(s, set, ENUM_VALUE(enum cgroup_subsys_id, cpuacct_cgrp_id), 0x3d74636361757063ULL, 8);
	add_group(s, set, ENUM_VALUE(enum cgroup_subsys_id, io_cgrp_id), 0x3d6f69ULL, 3);
	add_group(s, set, ENUM_VALUE(enum cgroup_subsys_id, memory_cgrp_id), 0x3d79726f6d656dULL, 7);
	return s->walk.used & (PATH_BYTES - 1);
}

/* Both ends of a socket, and its queue. */
INLINE u32 put_socket(struct building *b, u8 *to, u32 kind, u32 a, u32 address)
{
	struct scratch *s = b->s;
	s64 descriptor = kind == K_TUPLE_ACCEPTED || kind == K_QUEUE_PERCENT ? s->result : (s32)s->args[a & 3];
	struct sock *sk;
	u32 raw = 0;

	if (kind >= K_QUEUE_PERCENT) {
		u32 length, max;

		sk = sock_of(file_of((s32)s->args[0]));
		if (!sk)
			return 0;
		length = READ(sk, sk_ack_backlog);
		max = READ(sk, sk_max_ack_backlog);
		if (kind == K_QUEUE_PERCENT)
			PUT(u8, max ? (u8)((u64)length * 100 / max) : 0);
		PUT(u32, kind == K_QUEUE_LENGTH ? length : max);
	}
	sk = sock_of(file_of(descriptor));
	if (!sk)
		return 0;
	if (kind == K_TUPLE_MESSAGE) {
		struct message m = {};

		probe_read_user(&m, sizeof(m), (void *)s->args[1]);
		raw = read_address(s, m.name, m.name_bytes);
		return put_tuple(to, sk, s->address, raw, address & 1);
	}
	if (address < 6 && kind == K_TUPLE_OUT) {
		raw = read_address(s, s->args[address], (s32)s->args[5]);
	} else if (address < 6 && kind == K_TUPLE_IN) {
		s32 bytes = 0;

		if (s->args[5])
			probe_read_user(&bytes, 4, (void *)s->args[5]);
		raw = read_address(s, s->args[address], bytes);
	}
	/* A connect that failed leaves no address of its own: better none than 0.0.0.0:0. */
	if (address == 255 && kind == K_TUPLE_OUT && s->result < 0 && s->result != -EINPROGRESS &&
	    READ(sk, __sk_common.skc_family) != AF_UNIX && !READ(sk, __sk_common.skc_num))
		return 0;
	return put_tuple(to, sk, s->address, raw, kind != K_TUPLE_OUT);
}

INLINE u32 put_message(struct building *b, u8 *to, u32 kind, u32 a, u32 by_result)
{
	struct message m = {};
	s64 moved;

	if (b->s->is_ia32 || probe_read_user(&m, sizeof(m), (void *)b->s->args[a & 3]))
		return 0;
	if (kind == K_MESSAGE_SIZE)
		PUT(u32, vector_size(m.vector, m.vectors));
	if (kind == K_MESSAGE_CONTROL)
		return b->s->result < 0 ? 0 : put_bytes(b, to, m.control, (s64)m.control_bytes);
	moved = PATH_BYTES;
	if (by_result == 1) {
		moved = b->s->result;
	} else if (by_result == 2) { /* struct mmsghdr: the length comes after the message */
		u32 length = 0;

		probe_read_user(&length, 4, (void *)(b->s->args[a & 3] + sizeof(m)));
		moved = b->s->result > 0 ? length : 0;
	}
	return put_vector(b, to, m.vector, m.vectors, moved);
}

INLINE u32 put_checked_address(struct building *b, u8 *to, u32 a, u32 address_bytes)
{
	struct scratch *s = b->s;
	u32 n = read_address(s, s->args[a & 3], (s32)s->args[address_bytes & 3]);
	u32 raw = check_name(s, b->e, s->args[a & 3], n, IN_ADDRESS);

	return put_address(to, s->address, raw);
}

/* Values of the call's own arguments. */
INLINE u32 put_plain(struct building *b, u8 *to, u32 kind, u32 a, u32 second_number)
{
	struct scratch *s = b->s;
	u32 first = a & 7, second = second_number & 7;
	u64 argument, other;
	long n;

	argument = first > 5 ? 0 : s->args[first];
	other = second > 5 ? 0 : s->args[second];
	switch (kind) {
	case K_RESULT:
		PUT(s64, s->result);
	case K_ARGUMENT:
		return put_argument(to, argument, second_number);
	case K_SIGNED:
		PUT(s64, (s32)argument);
	case K_CONSTANT:
		PUT(u16, (u16)(a | second_number << 8));
	case K_NUMBER:
		PUT(u16, (u16)s->number);
	case K_TEXT:
		n = probe_read_user_str(to, PATH_BYTES, (void *)argument);
		return n > 0 ? (u32)n : 0;
	case K_NAME:
		n = probe_read_user_str(to, PATH_BYTES, (void *)argument);
		n = check_name(s, b->e, argument, n > 0 ? (u32)n : 0, (u32)(to - s->out));
		s->is_absolute = n && to[0] == '/';
		return (u32)n;
	case K_BYTES_RESULT:
		return put_bytes(b, to, argument, s->result);
	case K_BYTES_ARGUMENT:
		return put_bytes(b, to, argument, (s64)other);
	case K_OPEN_FLAGS: {
		u32 flags = (u32)argument & 0x1fffffff;

		if (second_number == 1) { /* struct open_how */
			u64 word = 0;

			probe_read_user(&word, 8, (void *)argument);
			flags = (u32)word & 0x1fffffff;
		} else if (second_number == 2) { /* creat */
			flags = 01101;
		}
		if (s->result >= 0) {
			struct file *file = file_of(s->result);
			int layer;

			s->file = (u64)file;
			if (file) {
				layer = layer_of(READ(file, f_inode));
				if (READ(file, f_mode) & FMODE_CREATED)
					flags |= 1U << 31;
				if (layer)
					flags |= layer == 1 ? 1U << 30 : 1U << 29;
			}
		}
		PUT(u32, flags);
	}
	case K_ENTER_NAME: {
		struct head *h = (void *)s->out;
		u32 bytes;

		if (h->toctou != TOCTOU_MISMATCH || !b->e)
			return 0;
		bytes = (u32)b->e->bytes & (NAME_BYTES - 1);
		if (a == 1) /* an address */
			return put_address(to, b->e->name, bytes);
		return probe_read_kernel(to, bytes, b->e->name) ? 0 : bytes;
	}
	case K_USER_32: {
		u32 word;

		if (!argument || probe_read_user(&word, 4, (void *)(argument + second_number)))
			return 0;
		PUT(u32, word);
	}
	case K_USER_64:
	case K_USER_64_AS_32: {
		u64 word;

		if (!argument || probe_read_user(&word, 8, (void *)(argument + second_number)))
			return 0;
		*(u64 *)to = word;
		return kind == K_USER_64 ? 8 : 4;
	}
	case K_TIMESPEC: {
		struct {
			s64 seconds, ns;
		} t;

		if (!argument || probe_read_user(&t, sizeof(t), (void *)argument))
			return 0;
		PUT(u64, (u64)(t.seconds * 1000000000 + t.ns));
	}
	case K_PIPE_INODE: {
		s32 descriptor = -1;
		struct file *file;

		if (s->result < 0 || probe_read_user(&descriptor, 4, (void *)argument))
			return 0;
		file = file_of(descriptor);
		if (!file)
			return 0;
		{
			struct inode *inode = READ(file, f_inode);

			PUT(u64, READ(inode, i_ino));
		}
	}
	case K_RESULT_32:
		PUT(u32, (u32)s->result);
	case K_USER_FD: {
		s32 descriptor;

		if (s->result < 0 || probe_read_user(&descriptor, 4, (void *)(argument + second_number)))
			return 0;
		PUT(s64, descriptor);
	}
	case K_USER_16: {
		u16 word;

		if (!argument || probe_read_user(&word, 2, (void *)(argument + second_number)))
			return 0;
		PUT(u16, word);
	}
	case K_OPTION_VALUE_AT: {
		s32 bytes = 0;

		probe_read_user(&bytes, 4, (void *)other);
		return put_bytes(b, to, argument, bytes);
	}
	case K_NETNS: {
		struct nsproxy *proxy = current_task()->nsproxy;
		struct net *net = proxy ? proxy->net_ns : NULL;

		if (!net)
			return 0;
		PUT(u32, READ(net, ns.inum));
	}
	case K_EXIT_STATUS:
		PUT(s64, s->result);
	case K_EXIT_RETURN:
		PUT(s64, s->result >> 8 & 0xff);
	case K_EXIT_SIGNAL:
		PUT(u8, s->result & 0x7f);
	case K_EXIT_CORE:
		PUT(u8, (s->result & 0x80) != 0);
	case K_POLL_FDS:
		return put_poll(to, argument, other);
	case K_BYTES_VECTOR:
		return s->is_ia32 ? 0 : put_vector(b, to, argument, other, s->result);
	case K_SIZE_VECTOR:
		if (s->is_ia32)
			return 0;
		PUT(u32, vector_size(argument, other));
	case K_OPTION_VALUE:
		return put_bytes(b, to, argument, (s32)other);
	case K_ADDRESS:
		return put_address(to, s->address, read_address(s, argument, (s32)other));
	}
	return 0;
}

/* Writes a value of any kind. */
INLINE u32 put_kind(struct building *b, u8 *to, u32 kind, u32 first, u32 second)
{
	struct scratch *s = b->s;

	/* A switch: comparisons of ranges are kept apart for the verifier, also if the kind is a constant. */
	switch (kind) {
	case K_CGROUPS:
		return put_groups(s);
	case K_EXE ... K_COMM:
	case K_TTY ... K_EXE_PATH:
	case K_FILE_NAME ... K_PIDNS_START:
	case K_CREDENTIAL:
		return put_process(b, to, kind, first);
	case K_OPENED_DEVICE:
	case K_OPENED_INODE:
	case K_OPENED_PATH ... K_BASE_DEPTH:
		return put_opened(b, to, kind, first < 6 ? s->args[first & 7] : first == 254 ? (u64)-100 : (u64)-1);
	case K_TUPLE_OUT ... K_TUPLE_ACCEPTED:
	case K_TUPLE_MESSAGE:
	case K_QUEUE_PERCENT ... K_QUEUE_MAX:
		return put_socket(b, to, kind, first, second);
	case K_MESSAGE_BYTES:
	case K_MESSAGE_SIZE:
	case K_MESSAGE_CONTROL:
		return put_message(b, to, kind, first, second);
	case K_ADDRESS_CHECKED:
		return put_checked_address(b, to, first, second);
	}
	return put_plain(b, to, kind, first, second);
}

/* Writes one value of a recipe, and its length. */
static long put_value(u32 index, struct building *b)
{
	u32 i = index & 63;
	struct scratch *s = b->s;
	u32 at = s->used & OUT_MASK;
	struct op *op;
	u32 n;

	if (i >= OPS_MAX)
		return 1;
	op = &b->r->ops[i];
	n = put_kind(b, s->out + at, op->kind, op->a, op->b);
	*(u16 *)(s->out + sizeof(struct head) + 2 * i) = (u16)n;
	s->used = at + (n & (2 * PATH_BYTES - 1));
	return 0;
}

/*
 * What native code is made of: a function for each call, which the build writes from the call's recipe. Numbers of bytes
 * that the compiler knows move `at` without being stored; after others it is loaded again.
 */
#define BEGIN_RECORD(values)          \
	struct scratch *s = b->s;     \
	u32 at = sizeof(struct head) + 2 * (values)

#define VALUE(i, kind, first, second)                                                         \
	do {                                                                                  \
		u32 n__;                                                                      \
                                                                                              \
		if (kind == K_CGROUPS || kind == K_EXE_PATH || kind == K_OPENED_PATH || kind == K_BASE_PATH) \
			s->used = at;                                                         \
		n__ = put_kind(b, s->out + at, kind, first, second);                          \
		*(u16 *)(s->out + sizeof(struct head) + 2 * (i)) = (u16)n__;                  \
		if (__builtin_constant_p(n__)) {                                              \
			at += n__;                                                            \
		} else {                                                                      \
			s->used = at + (n__ & (2 * PATH_BYTES - 1));                          \
			forget_memory();                                                      \
			at = s->used & OUT_MASK;                                              \
		}                                                                             \
	} while (0)

#define END_RECORD() s->used = at

#endif
