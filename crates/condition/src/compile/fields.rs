//! From the text of a field to its row in the table of fields, with its argument.

use super::error::Fault;
use crate::lang::FieldRef;
use gabion_record::fields::{Argument, Field, FieldId, Kind, ids};

/// An argument that a compiled condition keeps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OwnedArgument {
    /// Nothing.
    None,
    /// A number.
    Index(u32),
    /// A name.
    Key(String),
}

impl OwnedArgument {
    /// The argument as engines take it.
    pub fn borrow(&self) -> Argument<'_> {
        match self {
            OwnedArgument::None => Argument::None,
            OwnedArgument::Index(n) => Argument::Index(*n),
            OwnedArgument::Key(key) => Argument::Key(key),
        }
    }
}

/// What may be in the brackets of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Index,
    Key,
    Either,
}

fn takes(id: FieldId, field: &Field) -> Takes {
    match id {
        ids::PROC_ANAME | ids::PROC_AEXE | ids::PROC_AEXEPATH | ids::PROC_ACMDLINE => Takes::Index,
        ids::PROC_APID | ids::PROC_ARGS | ids::PROC_AARGS | ids::FD_TYPES => Takes::Index,
        ids::PROC_ENV | ids::EVT_RAWARG | ids::EVT_TYPE_IS | ids::THREAD_CGROUP => Takes::Key,
        ids::EVT_ABSPATH => Takes::Key,
        ids::PROC_AENV | ids::EVT_ARG => Takes::Either,
        _ if field.flags.argument_index && field.flags.argument_key => Takes::Either,
        _ if field.flags.argument_index => Takes::Index,
        _ if field.flags.argument_allowed => Takes::Key,
        _ => Takes::Nothing,
    }
}

/// Finds the field and checks its argument. `evt.arg.flags` and `evt.arg[flags]` are the same field.
///
/// # Errors
/// There is no such field, it takes no such argument, or it needs one.
pub fn resolve_field(field: &FieldRef) -> Result<(FieldId, OwnedArgument), Fault> {
    let no_field = || Fault::NoField(text_of(field));
    let (id, dotted) = match FieldId::by_name(&field.name) {
        Some(id) => (id, None),
        None => longest_prefix(&field.name).ok_or_else(no_field)?,
    };
    let row = id.field();
    if row.flags.table_only {
        return Err(no_field());
    }
    let argument = match (dotted, field.argument.as_deref()) {
        (Some(_), Some(_)) => return Err(no_field()),
        (Some(text), None) | (None, Some(text)) => text,
        (None, None) if row.flags.argument_required && id != ids::EVT_ABSPATH => {
            return Err(Fault::NoArgument(text_of(field)));
        }
        (None, None) => return Ok((id, OwnedArgument::None)),
    };
    let index = || argument.parse().ok().map(OwnedArgument::Index);
    let key = || OwnedArgument::Key(argument.to_string());
    let argument = match takes(id, row) {
        Takes::Nothing => None,
        Takes::Index => index(),
        Takes::Key => Some(key()),
        Takes::Either => index().or_else(|| Some(key())),
    };
    argument.map(|argument| (id, argument)).ok_or_else(no_field)
}

/// The field whose name, with an argument after a dot, is `name`: `evt.arg` for `evt.arg.flags`.
fn longest_prefix(name: &str) -> Option<(FieldId, Option<&str>)> {
    let mut end = name.len();
    while let Some(dot) = name.get(..end)?.rfind('.') {
        let (before, after) = (name.get(..dot)?, name.get(dot + 1..)?);
        if let Some(id) = FieldId::by_name(before).filter(|id| takes_dotted(*id)) {
            return Some((id, Some(after)));
        }
        end = dot;
    }
    None
}

/// Fields whose argument may follow a dot. The others need brackets, so that `proc.name.x` stays a mistake.
fn takes_dotted(id: FieldId) -> bool {
    matches!(
        id,
        ids::EVT_ARG
            | ids::EVT_RAWARG
            | ids::EVT_TYPE_IS
            | ids::EVT_ABSPATH
            | ids::THREAD_CGROUP
            | ids::PROC_ENV
    )
}

/// The field as a rule writes it.
pub(crate) fn text_of(field: &FieldRef) -> String {
    let mut out = String::new();
    crate::lang::write_field(field, &mut out);
    out
}

/// The type that values of the field are compared as.
pub(crate) fn kind_of(id: FieldId) -> Kind {
    id.field().kind
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(name: &str, argument: Option<&str>) -> Result<(FieldId, OwnedArgument), String> {
        let argument = argument.map(str::to_string);
        resolve_field(&FieldRef { name: name.to_string(), argument, is_quoted: false })
            .map_err(|fault| fault.to_string())
    }

    #[test]
    fn arguments_follow_a_dot_or_are_in_brackets() {
        let key = OwnedArgument::Key("flags".to_string());
        assert_eq!(resolve("evt.arg.flags", None), Ok((ids::EVT_ARG, key.clone())));
        assert_eq!(resolve("evt.arg", Some("flags")), Ok((ids::EVT_ARG, key)));
        assert_eq!(resolve("evt.arg", Some("0")), Ok((ids::EVT_ARG, OwnedArgument::Index(0))));
        assert_eq!(resolve("evt.arg", None), Err("filter syntax error: evt.arg".to_string()));
        let message = "filter_check called with nonexistent field proc.aname[x]";
        assert_eq!(resolve("proc.aname", Some("x")), Err(message.to_string()));
        assert!(resolve("proc.name.x", None).is_err());
        assert!(resolve("thread.nametid", None).is_err());
    }
}
