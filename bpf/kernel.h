/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The few types and fields of the kernel that the programs read. The attribute makes the compiler record each
 * access, and the loader moves it to the place where the running kernel has the field. Order and size here mean
 * nothing. A type whose name ends in ___something is another version of the same type.
 */
#ifndef GABION_KERNEL_H
#define GABION_KERNEL_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

#define PF_KTHREAD 0x00200000
#define TS_COMPAT 2
#define FMODE_CREATED 0x100000
#define S_IFMT 0170000
#define S_IFSOCK 0140000

struct net_device {
	int ifindex;
};

struct napi_struct {
	struct net_device *dev;
};

struct pt_regs {
	unsigned long bx, cx, dx, si, di, bp, r8, r9, r10, ax, orig_ax;
};

/* Users and groups, and sets of capabilities, are structures so that they are not mixed with numbers. */
struct kernel_id {
	u32 val;
};

struct capabilities {
	u64 val;
};

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
};

struct inode {
	u16 i_mode;
	struct kernel_id i_uid, i_gid;
	struct super_block *i_sb;
	unsigned long i_ino;
	s64 i_mtime_sec, i_ctime_sec;
	u32 i_mtime_nsec, i_ctime_nsec;
	u32 i_nlink;
};

struct qstr {
	u32 len;
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	u32 f_mode;
	void *private_data;
	struct inode *f_inode;
	struct path f_path;
};

struct fdtable {
	u32 max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct fs_struct {
	struct path root, pwd;
};

struct ovl_inode {
	struct inode vfs_inode;
	struct dentry *__upperdentry;
};

struct percpu_counter {
	s64 count;
};

struct mm_struct {
	unsigned long total_vm, arg_start, arg_end, env_start, env_end;
	struct percpu_counter rss_stat[4];
	struct file *exe_file;
};

struct cred {
	struct kernel_id uid, gid, suid, sgid, euid, egid;
	struct capabilities cap_inheritable, cap_permitted, cap_effective;
};

struct pid_namespace {
	u32 level;
	struct task_struct *child_reaper;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	u32 level;
	struct upid numbers[1];
};

struct rlimit {
	unsigned long rlim_cur, rlim_max;
};

struct tty_driver {
	int major, minor_start;
};

struct tty_struct {
	int index;
	struct tty_driver *driver;
};

struct signal_struct {
	struct pid *pids[4];
	struct tty_struct *tty;
	struct rlimit rlim[16];
};

struct ns_common {
	u32 inum;
};

struct net {
	struct ns_common ns;
};

struct nsproxy {
	struct pid_namespace *pid_ns_for_children;
	struct net *net_ns;
};

struct kernfs_node {
	const char *name;
	struct kernfs_node *__parent;
};

struct kernfs_node___old {
	struct kernfs_node *parent;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct css_set {
	struct cgroup_subsys_state *subsys[16];
};

enum cgroup_subsys_id {
	cpuset_cgrp_id,
	cpu_cgrp_id,
	cpuacct_cgrp_id,
	io_cgrp_id,
	memory_cgrp_id,
};

struct thread_info {
	u32 status;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	int pid;
	int tgid;
	int exit_code;
	char comm[16];
	struct mm_struct *mm;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	struct files_struct *files;
	struct fs_struct *fs;
	struct cred *cred;
	struct kernel_id loginuid;
	struct nsproxy *nsproxy;
	struct pid *thread_pid;
	u64 start_boottime;
	unsigned long maj_flt, min_flt;
	struct css_set *cgroups;
};

struct in6_addr {
	u8 bytes[16];
};

struct sock_common {
	u32 skc_daddr, skc_rcv_saddr;
	u16 skc_dport, skc_num, skc_family;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	u32 sk_ack_backlog, sk_max_ack_backlog;
};

struct socket {
	struct sock *sk;
};

struct sockaddr_un {
	u16 sun_family;
	char sun_path[108];
};

struct unix_address {
	int len;
	struct sockaddr_un name[1];
};

struct unix_sock {
	struct unix_address *addr;
	struct sock *peer;
};

#pragma clang attribute pop

/* Reads a field through a pointer that the verifier does not know; 0 if the read fails. */
#define READ(pointer, field)                                                                              \
	({                                                                                                \
		typeof((pointer)->field) value__;                                                         \
		if (probe_read_kernel(&value__, sizeof(value__),                                          \
				      __builtin_preserve_access_index(&(pointer)->field)))                \
			memset(&value__, 0, sizeof(value__));                                             \
		value__;                                                                                  \
	})

#define FIELD_EXISTS(field) __builtin_preserve_field_info(field, 2)
#define FIELD_OFFSET(type, field) __builtin_preserve_field_info(((type *)0)->field, 0)
#define ENUM_VALUE(type, value) __builtin_preserve_enum_value(*(typeof(type) *)value, 1)
#define ENUM_EXISTS(type, value) __builtin_preserve_enum_value(*(typeof(type) *)value, 0)

#endif
