//! Containers as their runtimes describe them: by events of files, or by the caller that asks a runtime.
//!
//! Falco's plugin `container` 0.7.1 writes one JSON object for each container into the stream; older versions of Falco
//! wrote the same members.

use foldhash::fast::RandomState;
use gabion_record::fields::{Argument, FieldId, Missing, Scratch, Value, ids};
use hashbrown::HashMap;

use crate::container::SHORT_DIGITS;
use crate::json::Json;
use crate::limits::reached;

/// What stands in all members while a runtime has not answered yet.
const INCOMPLETE: &[u8] = b"incomplete";

/// Descriptions by identifier.
#[derive(Debug, Default)]
pub(crate) struct Containers {
    known: HashMap<Vec<u8>, Json, RandomState>,
}

/// The member of a field that is text, yes or no.
fn member_of(field: FieldId) -> Option<&'static str> {
    Some(match field {
        ids::CONTAINER_NAME => "name",
        ids::CONTAINER_IMAGE => "image",
        ids::CONTAINER_IMAGE_ID => "imageid",
        ids::CONTAINER_IMAGE_REPOSITORY => "imagerepo",
        ids::CONTAINER_IMAGE_TAG => "imagetag",
        ids::CONTAINER_IMAGE_DIGEST => "imagedigest",
        ids::CONTAINER_IP | ids::K8S_POD_IP => "ip",
        ids::CONTAINER_CNI_JSON | ids::K8S_POD_CNI_JSON => "cni_json",
        ids::CONTAINER_PRIVILEGED => "privileged",
        ids::CONTAINER_HOST_PID => "host_pid",
        ids::CONTAINER_HOST_NETWORK => "host_network",
        ids::CONTAINER_HOST_IPC => "host_ipc",
        ids::K8S_POD_SANDBOX_ID | ids::K8S_POD_FULL_SANDBOX_ID => "pod_sandbox_id",
        _ => return None,
    })
}

/// The label that Kubernetes gives a container for a field.
fn label_of(field: FieldId) -> Option<&'static str> {
    Some(match field {
        ids::K8S_POD_NAME => "io.kubernetes.pod.name",
        ids::K8S_NS_NAME => "io.kubernetes.pod.namespace",
        ids::K8S_POD_UID | ids::K8S_POD_ID => "io.kubernetes.pod.uid",
        _ => return None,
    })
}

impl Containers {
    /// Adds what a runtime reported in JSON; a description without values adds nothing.
    pub(crate) fn add_json(&mut self, json: &[u8]) {
        let Some(json) = Json::parse(json) else { return };
        let Json::Object(members) = json else { return };
        let found = members.into_iter().find(|(name, _)| name == b"container");
        let Some((_, container)) = found else { return };
        let text = |name: &str| container.get(name).and_then(Json::text);
        let Some(id) = text("id").map(|id| id.get(..SHORT_DIGITS).unwrap_or(id).to_vec()) else {
            return;
        };
        if text("image") == Some(INCOMPLETE) && text("name") == Some(INCOMPLETE) {
            return;
        }
        if self.known.contains_key(&id) || reached::CONTAINERS_MAX.has_room(self.known.len()) {
            self.known.insert(id, container);
        }
    }

    /// A field of the container of this identifier.
    pub(crate) fn field<'a>(
        &'a self,
        id: &[u8],
        field: FieldId,
        argument: Argument<'_>,
        scratch: &'a mut Scratch,
    ) -> Result<Value<'a>, Missing> {
        let container = self.known.get(id).ok_or(Missing::LookupFailed)?;
        let labels = |name: &str| container.get(name).unwrap_or(&Json::Null);
        if let Some(member) = member_of(field) {
            let value = container.get(member).ok_or(Missing::NeverSeen)?;
            if let Some(is) = value.bool() {
                return Ok(Value::Bool(is));
            }
            let text = value.text().ok_or(Missing::NeverSeen)?;
            return Ok(Value::Text(match field {
                ids::K8S_POD_SANDBOX_ID => text.get(..SHORT_DIGITS).unwrap_or(text),
                _ => text,
            }));
        }
        if let Some(label) = label_of(field) {
            let value = labels("labels").get(label).and_then(Json::text);
            return value.map(Value::Text).ok_or(Missing::NotApplicable);
        }
        match field {
            ids::CONTAINER_LABEL | ids::K8S_POD_LABEL => {
                let Argument::Key(name) = argument else { return Err(Missing::NotApplicable) };
                let value = labels(label_member(field)).get(name).and_then(Json::text);
                value.map(Value::Text).ok_or(Missing::NotApplicable)
            }
            ids::CONTAINER_LABELS | ids::K8S_POD_LABELS => {
                put_labels(labels(label_member(field)), scratch)
            }
            ids::CONTAINER_MOUNTS => {
                let to = scratch.text();
                for (at, mount) in
                    container.get("Mounts").map_or(&[][..], Json::values).iter().enumerate()
                {
                    if at > 0 {
                        to.push(b' ');
                    }
                    put_mount(mount, to);
                }
                if to.is_empty() { Err(Missing::NotApplicable) } else { Ok(scratch.as_text()) }
            }
            ids::CONTAINER_MOUNT
            | ids::CONTAINER_MOUNT_SOURCE
            | ids::CONTAINER_MOUNT_DEST
            | ids::CONTAINER_MOUNT_MODE
            | ids::CONTAINER_MOUNT_RDWR
            | ids::CONTAINER_MOUNT_PROPAGATION => mount_field(container, field, argument, scratch),
            _ => Err(Missing::NotApplicable),
        }
    }
}

/// The member that holds the labels of a container or of its pod.
fn label_member(field: FieldId) -> &'static str {
    match field {
        ids::CONTAINER_LABEL | ids::CONTAINER_LABELS => "labels",
        _ => "pod_sandbox_labels",
    }
}

fn put_labels<'a>(labels: &Json, scratch: &'a mut Scratch) -> Result<Value<'a>, Missing> {
    let to = scratch.text();
    for (name, value) in labels.members() {
        if !to.is_empty() {
            to.extend_from_slice(b", ");
        }
        to.extend_from_slice(name);
        to.push(b':');
        to.extend_from_slice(value.text().unwrap_or_default());
    }
    if to.is_empty() { Err(Missing::NotApplicable) } else { Ok(scratch.as_text()) }
}

/// The members of a mount in the order of `container.mounts`.
const MOUNT_MEMBERS: [&str; 5] = ["Source", "Destination", "Mode", "RW", "Propagation"];

fn put_mount_member(mount: &Json, member: &str, to: &mut Vec<u8>) {
    match mount.get(member) {
        Some(Json::Bool(is)) => to.extend_from_slice(if *is { b"true" } else { b"false" }),
        Some(value) => to.extend_from_slice(value.text().unwrap_or_default()),
        None => {}
    }
}

fn put_mount(mount: &Json, to: &mut Vec<u8>) {
    for (at, member) in MOUNT_MEMBERS.iter().enumerate() {
        if at > 0 {
            to.push(b':');
        }
        put_mount_member(mount, member, to);
    }
}

/// A mount by its number, its source, or for its source by its destination; a path may end with `*`. Falco writes `none`
/// where there is no such mount.
fn mount_field<'a>(
    container: &Json,
    field: FieldId,
    argument: Argument<'_>,
    scratch: &'a mut Scratch,
) -> Result<Value<'a>, Missing> {
    let mounts = container.get("Mounts").map_or(&[][..], Json::values);
    let key_member = if field == ids::CONTAINER_MOUNT_SOURCE { "Destination" } else { "Source" };
    let matches = |mount: &Json, pattern: &str| {
        let path = mount.get(key_member).and_then(Json::text).unwrap_or_default();
        match pattern.strip_suffix('*') {
            Some(start) => path.starts_with(start.as_bytes()),
            None => path == pattern.as_bytes(),
        }
    };
    let mount = match argument {
        Argument::Index(index) => mounts.get(index as usize),
        Argument::Key(pattern) => mounts.iter().find(|mount| matches(mount, pattern)),
        Argument::None => return Err(Missing::NotApplicable),
    };
    let to = scratch.text();
    match (mount, field) {
        (None, _) => to.extend_from_slice(b"none"),
        (Some(mount), ids::CONTAINER_MOUNT) => put_mount(mount, to),
        (Some(mount), ids::CONTAINER_MOUNT_SOURCE) => put_mount_member(mount, "Source", to),
        (Some(mount), ids::CONTAINER_MOUNT_DEST) => put_mount_member(mount, "Destination", to),
        (Some(mount), ids::CONTAINER_MOUNT_MODE) => put_mount_member(mount, "Mode", to),
        (Some(mount), ids::CONTAINER_MOUNT_RDWR) => put_mount_member(mount, "RW", to),
        (Some(mount), _) => put_mount_member(mount, "Propagation", to),
    }
    Ok(scratch.as_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"container":{"Mounts":[{"Source":"/srv","Destination":"/data","Mode":"ro",
        "RW":false,"Propagation":"rprivate"}],"id":"697956520d89","image":"nginx:1","imagerepo":"nginx",
        "privileged":true,"labels":{"a":"b","io.kubernetes.pod.name":"web"},"ip":""}}"#;

    fn field(containers: &Containers, field: FieldId, argument: Argument<'_>) -> String {
        match containers.field(b"697956520d89", field, argument, &mut Scratch::new()) {
            Ok(Value::Text(text)) => String::from_utf8_lossy(text).into_owned(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn fields_come_from_what_the_runtime_reported() {
        let mut containers = Containers::default();
        containers.add_json(JSON.as_bytes());
        let none = |id| field(&containers, id, Argument::None);
        assert_eq!(none(ids::CONTAINER_IMAGE_REPOSITORY), "nginx");
        assert_eq!(none(ids::CONTAINER_PRIVILEGED), "Ok(Bool(true))");
        assert_eq!(none(ids::CONTAINER_IP), "Err(NeverSeen)");
        assert_eq!(none(ids::K8S_POD_NAME), "web");
        assert_eq!(none(ids::CONTAINER_LABELS), "a:b, io.kubernetes.pod.name:web");
        assert_eq!(none(ids::CONTAINER_MOUNTS), "/srv:/data:ro:false:rprivate");
        let key = |id, key| field(&containers, id, Argument::Key(key));
        assert_eq!(key(ids::CONTAINER_LABEL, "a"), "b");
        assert_eq!(key(ids::CONTAINER_MOUNT_DEST, "/sr*"), "/data");
        assert_eq!(key(ids::CONTAINER_MOUNT_SOURCE, "/data"), "/srv");
        assert_eq!(key(ids::CONTAINER_MOUNT, "/nosuch"), "none");
        assert_eq!(field(&containers, ids::CONTAINER_MOUNT_RDWR, Argument::Index(0)), "false");
    }

    #[test]
    fn what_says_nothing_adds_nothing() {
        let mut containers = Containers::default();
        for json in ["", "[]", "{}", "{\"container\":{}}"] {
            containers.add_json(json.as_bytes());
        }
        let incomplete =
            r#"{"container":{"id":"697956520d89","name":"incomplete","image":"incomplete"}}"#;
        containers.add_json(incomplete.as_bytes());
        assert_eq!(field(&containers, ids::CONTAINER_NAME, Argument::None), "Err(LookupFailed)");
    }

    #[test]
    fn further_containers_are_counted() {
        let mut containers = Containers::default();
        for n in 0..=crate::limits::CONTAINERS_MAX {
            containers.add_json(format!("{{\"container\":{{\"id\":\"c{n}\"}}}}").as_bytes());
        }
        assert_eq!(containers.known.len(), crate::limits::CONTAINERS_MAX);
        assert_eq!(
            gabion_record::limits::take_reached().times_reached(&reached::CONTAINERS_MAX),
            1
        );
    }
}
