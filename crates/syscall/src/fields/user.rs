//! Fields of users and groups.

use gabion_record::fields::{FieldId, Missing, Scratch, Value, ids};

use super::{Field, View};

impl View<'_> {
    /// The name of a user: from the list, `root` for 0 without one.
    pub(super) fn user_name(&self, uid: u32) -> Option<&[u8]> {
        match self.state.accounts.user(uid) {
            Some(user) => Some(&user.name),
            None => (uid == 0).then_some(b"root"),
        }
    }

    /// The name of a group: from the list, `root` for 0 without one.
    pub(super) fn group_name(&self, gid: u32) -> Option<&[u8]> {
        self.state.accounts.group(gid).or_else(|| (gid == 0).then_some(b"root"))
    }

    /// Fields of users and groups.
    pub(super) fn user_field<'a>(&'a self, field: FieldId, scratch: &'a mut Scratch) -> Field<'a> {
        let _ = scratch;
        let thread = self.thread()?;
        let found = |text: Option<&'a [u8]>| text.map(Value::Text).ok_or(Missing::LookupFailed);
        let is_name = !matches!(field, ids::USER_UID | ids::USER_LOGINUID | ids::GROUP_GID);
        if is_name && self.is_loss_open() {
            return Err(Missing::Shed);
        }
        let is_login = field == ids::USER_LOGINNAME;
        if is_login && thread.loginuid == u32::MAX && !thread.is_unseen() {
            return Err(Missing::NotApplicable);
        }
        if is_name && thread.is_unseen() {
            // Without an id there is nothing to look up.
            return Err(Missing::NeverSeen);
        }
        match field {
            ids::USER_UID => Ok(Value::Unsigned(u64::from(thread.uid))),
            ids::USER_NAME => found(self.user_name(thread.uid)),
            ids::USER_HOMEDIR => {
                let user = self.state.accounts.user(thread.uid);
                let root = (thread.uid == 0).then_some(&b"/root"[..]);
                found(user.map(|user| user.home.as_slice()).or(root))
            }
            ids::USER_SHELL => {
                found(self.state.accounts.user(thread.uid).map(|user| user.shell.as_slice()))
            }
            ids::USER_LOGINUID => Ok(Value::Signed(match thread.loginuid {
                u32::MAX => -1,
                uid => i64::from(uid),
            })),
            ids::USER_LOGINNAME => found(self.user_name(thread.loginuid)),
            ids::GROUP_GID => Ok(Value::Unsigned(u64::from(thread.gid))),
            ids::GROUP_NAME => found(self.group_name(thread.gid)),
            _ => Err(Missing::NotApplicable),
        }
    }
}
