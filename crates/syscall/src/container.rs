//! Containers from the names of control groups: the identifier, the runtime, and Kubernetes' identifier of the pod.
//!
//! A runtime puts each container into a control group whose path ends in `<prefix><identifier><suffix>`; prefix and
//! suffix name the runtime (Falco's container plugin 0.7.1). The first runtime of the table whose form one of the
//! paths has wins. Names, images and labels are known only to the runtime: they come from its events or not at all.

/// Digits of a full identifier: 32 bytes of hexadecimal.
const FULL_DIGITS: usize = 64;
/// Digits of the identifier that `container.id` shows.
pub const SHORT_DIGITS: usize = 12;

/// A container runtime, by the names of `container.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// Docker.
    Docker,
    /// A runtime of Kubernetes' interface (containerd or CRI-O).
    Cri,
    /// Podman.
    Podman,
    /// LXC.
    Lxc,
    /// libvirt's LXC driver.
    LibvirtLxc,
    /// BOSH's process manager.
    Bpm,
    /// containerd without Kubernetes.
    Containerd,
}

impl Runtime {
    /// The name in `container.type`.
    pub const fn name(self) -> &'static str {
        match self {
            Runtime::Docker => "docker",
            Runtime::Cri => "cri-o",
            Runtime::Podman => "podman",
            Runtime::Lxc => "lxc",
            Runtime::LibvirtLxc => "libvirt-lxc",
            Runtime::Bpm => "bpm",
            Runtime::Containerd => "containerd",
        }
    }
}

/// How a runtime names control groups: an identifier stands between `prefix` and `suffix` at the path's end.
struct Form {
    runtime: Runtime,
    prefix: &'static [u8],
    suffix: &'static [u8],
    /// Whether the identifier has 64 hexadecimal digits; the others are any name.
    is_hex: bool,
}

const fn hex(runtime: Runtime, prefix: &'static [u8], suffix: &'static [u8]) -> Form {
    Form { runtime, prefix, suffix, is_hex: true }
}

const fn name(runtime: Runtime, prefix: &'static [u8], suffix: &'static [u8]) -> Form {
    Form { runtime, prefix, suffix, is_hex: false }
}

/// All forms, in the order in which they are tried.
const FORMS: &[Form] = &[
    hex(Runtime::Podman, b"/libpod-payload-", b""),
    hex(Runtime::Podman, b"/libpod-", b".scope"),
    hex(Runtime::Podman, b"/libpod-", b".scope/container"),
    hex(Runtime::Cri, b"/cri-containerd-", b".scope"),
    hex(Runtime::Cri, b"/crio-", b".scope"),
    hex(Runtime::Cri, b"/crio-", b""),
    hex(Runtime::Cri, b":cri-containerd:", b""),
    hex(Runtime::Cri, b"/nerdctl-", b".scope"),
    hex(Runtime::Docker, b"/docker-", b".scope"),
    hex(Runtime::Docker, b"/", b""),
    name(Runtime::Lxc, b"/lxc.payload/", b""),
    name(Runtime::Lxc, b"/lxc.payload.", b""),
    name(Runtime::Lxc, b"/lxc/", b""),
    name(Runtime::LibvirtLxc, b"/libvirt/lxc/", b""),
    name(Runtime::LibvirtLxc, b"/", b".libvirt-lxc"),
    name(Runtime::Bpm, b"/bpm-", b".scope"),
];

/// A container as its control group names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerRef<'a> {
    /// The runtime.
    pub runtime: Runtime,
    /// The full identifier or name.
    pub full_id: &'a [u8],
}

impl<'a> ContainerRef<'a> {
    /// The identifier that `container.id` shows: the first 12 digits, or the whole name.
    pub fn id(&self) -> &'a [u8] {
        self.full_id
            .get(..SHORT_DIGITS)
            .filter(|_| is_full_id(self.full_id))
            .unwrap_or(self.full_id)
    }
}

fn is_full_id(id: &[u8]) -> bool {
    id.len() == FULL_DIGITS && id.iter().all(u8::is_ascii_hexdigit)
}

/// Where an identifier is in a thread's control groups, so that it is looked for once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerPlace {
    runtime: Runtime,
    start: u32,
    len: u32,
}

impl ContainerPlace {
    /// The place of the container in control groups; `None` for a thread of the host.
    pub fn find(cgroups: &[u8]) -> Option<ContainerPlace> {
        let found = container_of(cgroups)?;
        let start = found.full_id.as_ptr().addr().checked_sub(cgroups.as_ptr().addr())?;
        Some(ContainerPlace {
            runtime: found.runtime,
            start: u32::try_from(start).ok()?,
            len: u32::try_from(found.full_id.len()).ok()?,
        })
    }

    /// The container, from the control groups in which it was found.
    pub fn container_in<'a>(&self, cgroups: &'a [u8]) -> Option<ContainerRef<'a>> {
        let (start, len) = (self.start as usize, self.len as usize);
        let full_id = cgroups.get(start..start.checked_add(len)?)?;
        Some(ContainerRef { runtime: self.runtime, full_id })
    }
}

/// The paths of a thread's control groups: `cgroups` is `subsystem=path` entries, each ended by a zero byte.
pub fn paths(cgroups: &[u8]) -> impl Iterator<Item = &[u8]> {
    cgroups.split(|b| *b == 0).filter(|entry| !entry.is_empty()).map(|entry| {
        let path = entry.iter().position(|b| *b == b'=').and_then(|at| entry.get(at + 1..));
        path.unwrap_or(entry)
    })
}

/// The container of a thread with these control groups; `None` is a thread of the host.
pub fn container_of(cgroups: &[u8]) -> Option<ContainerRef<'_>> {
    for form in FORMS {
        for path in paths(cgroups) {
            if let Some(full_id) = match_form(form, path) {
                return Some(ContainerRef { runtime: form.runtime, full_id });
            }
        }
    }
    paths(cgroups).find_map(containerd_of)
}

fn match_form<'a>(form: &Form, path: &'a [u8]) -> Option<&'a [u8]> {
    let body = path.strip_suffix(form.suffix)?;
    let start = if form.is_hex {
        body.len().checked_sub(FULL_DIGITS)?
    } else {
        find_last(body, form.prefix)?.checked_add(form.prefix.len())?
    };
    let (before, id) = body.split_at_checked(start)?;
    let is_id = if form.is_hex { is_full_id(id) } else { !id.is_empty() && !id.contains(&b'/') };
    (before.ends_with(form.prefix) && is_id).then_some(id)
}

/// containerd's own form is `/<namespace>/<identifier>`; units of systemd have two parts too.
fn containerd_of(path: &[u8]) -> Option<ContainerRef<'_>> {
    let mut parts = path.strip_prefix(b"/")?.split(|b| *b == b'/');
    let (namespace, id) = (parts.next()?, parts.next()?);
    let is_unit = |part: &[u8]| {
        [&b".service"[..], b".slice", b".scope"].iter().any(|end| part.ends_with(end))
    };
    let is_form = parts.next().is_none() && !namespace.is_empty() && !id.is_empty();
    (is_form && !is_unit(id) && !is_unit(namespace))
        .then_some(ContainerRef { runtime: Runtime::Containerd, full_id: id })
}

fn find_last(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len().max(1)).rposition(|window| window == needle)
}

/// Kubernetes' identifier of the pod (`k8s.pod.uid`) from control groups such as
/// `/kubepods/burstable/pod<uid>/<container>` or `/kubepods-burstable-pod<uid>.slice/…`, written with hyphens into
/// `to`. False if the thread is in no pod.
pub fn pod_uid(cgroups: &[u8], to: &mut Vec<u8>) -> bool {
    for path in paths(cgroups).filter(|path| find_last(path, b"kubepods").is_some()) {
        for part in path.split(|b| *b == b'/') {
            let part = part.strip_suffix(b".slice").unwrap_or(part);
            let Some(at) = find_last(part, b"pod") else { continue };
            let Some(uid) = part.get(at + 3..).filter(|uid| is_pod_uid(uid)) else { continue };
            to.extend(uid.iter().map(|b| if *b == b'_' { b'-' } else { *b }));
            return true;
        }
    }
    false
}

/// 36 characters of a UUID with hyphens (underscores in systemd's names), or 32 digits of a static pod.
fn is_pod_uid(uid: &[u8]) -> bool {
    let is_digit_or = |b: &u8| b.is_ascii_hexdigit() || *b == b'-' || *b == b'_';
    (uid.len() == 36 && uid.iter().all(is_digit_or))
        || (uid.len() == 32 && uid.iter().all(u8::is_ascii_hexdigit))
}

/// The identifier that the reference alerts of the corpus were made with: the first 12 digits of the last run of 64
/// hexadecimal digits in any path. For comparisons only.
pub fn last_hex_run(cgroups: &[u8]) -> Option<&[u8]> {
    let mut found = None;
    let mut start = 0;
    for end in 0..=cgroups.len() {
        let is_hex = cgroups.get(end).is_some_and(u8::is_ascii_hexdigit);
        if !is_hex {
            if end - start >= FULL_DIGITS {
                found = cgroups.get(start..start + SHORT_DIGITS);
            }
            start = end + 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3ad7b26ded6d8e7b23da7d48fe889434573036c27ae5a74837233de441c3601e";

    fn container(path: &str) -> Option<(Runtime, String)> {
        let cgroups = format!("cpuset=/\0memory={path}\0");
        let found = container_of(cgroups.as_bytes())?;
        Some((found.runtime, String::from_utf8_lossy(found.id()).into_owned()))
    }

    /// The forms are those of Falco's container plugin 0.7.1.
    #[test]
    fn each_runtime_is_known_by_its_control_group() {
        for (path, runtime, id) in [
            (format!("/docker/{ID}"), Runtime::Docker, "3ad7b26ded6d"),
            (format!("/system.slice/docker-{ID}.scope"), Runtime::Docker, "3ad7b26ded6d"),
            (format!("/kubepods/besteffort/pod1/crio-{ID}.scope"), Runtime::Cri, "3ad7b26ded6d"),
            (format!("/kubepods.slice/cri-containerd-{ID}.scope"), Runtime::Cri, "3ad7b26ded6d"),
            (format!("/kubepods.slice:cri-containerd:{ID}"), Runtime::Cri, "3ad7b26ded6d"),
            (format!("/user.slice/libpod-{ID}.scope/container"), Runtime::Podman, "3ad7b26ded6d"),
            ("/lxc/web".to_owned(), Runtime::Lxc, "web"),
            ("/lxc.payload.web".to_owned(), Runtime::Lxc, "web"),
            ("/machine/web.libvirt-lxc".to_owned(), Runtime::LibvirtLxc, "web"),
            ("/default/web".to_owned(), Runtime::Containerd, "web"),
        ] {
            assert_eq!(container(&path), Some((runtime, id.to_owned())), "{path}");
        }
    }

    #[test]
    fn threads_of_the_host_are_in_no_container() {
        for path in ["/", "", "/init.scope", "/system.slice/sshd.service", "/user.slice/x.slice/y"]
        {
            assert_eq!(container(path), None, "{path}");
        }
        assert_eq!(
            container(&format!("/docker/{}", &ID[1..])),
            Some((Runtime::Containerd, ID[1..].to_owned()))
        );
    }

    #[test]
    fn the_pod_is_known_by_both_drivers_names() {
        for path in [
            "/kubepods/burstable/pod3e41dc6b-08a8-44db-bc2a-3724b18ab19a/abc",
            "/kubepods.slice/kubepods-burstable-pod3e41dc6b_08a8_44db_bc2a_3724b18ab19a.slice/crio-1.scope",
        ] {
            let mut uid = Vec::new();
            assert!(pod_uid(format!("memory={path}\0").as_bytes(), &mut uid), "{path}");
            assert_eq!(uid, b"3e41dc6b-08a8-44db-bc2a-3724b18ab19a");
        }
        assert!(!pod_uid(b"memory=/kubepods/podx/abc\0cpu=/user/podman\0", &mut Vec::new()));
    }

    #[test]
    fn the_stand_in_takes_the_last_run_of_64_digits() {
        let cgroups = format!("a=/{}/docker/{ID}\0", "0".repeat(64));
        assert_eq!(last_hex_run(cgroups.as_bytes()), Some(&ID.as_bytes()[..12]));
        assert_eq!(last_hex_run(&ID.as_bytes()[1..]), None);
        assert_eq!(last_hex_run(b""), None);
    }
}
