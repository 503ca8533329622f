//! The user and group that a run goes over to (`run-as`, `--user`, `--group`).

use crate::error::{Error, Result};
use gabion_record::Tree;
use gabion_runtime::daemon::run_as::RunAs;

/// The user and group that are named by the command line, else by the configuration.
///
/// # Errors
/// In Suricata's words: when a name is empty, or nobody has it.
pub fn find_run_as(config: &Tree, user: Option<&str>, group: Option<&str>) -> Result<RunAs> {
    // A key without a value names nobody, which is not the same as no key.
    let named = |key: &str| config.get(key).map(|node| node.value.as_deref().unwrap_or_default());
    let user = user.or_else(|| named("run-as.user"));
    let group = group.or_else(|| named("run-as.group"));
    match (user, group) {
        (Some(""), _) => Err(Error::NoRunAsName { kind: "user" }),
        (None, Some("")) => Err(Error::NoRunAsName { kind: "group" }),
        (_, _) => Ok(RunAs::find(user, group)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(user: Option<&str>, group: Option<&str>, option: Option<&str>) -> Result<RunAs> {
        let mut config = Tree::default();
        for (key, value) in [("run-as.user", user), ("run-as.group", group)] {
            if let Some(value) = value {
                config.set(key, value);
            }
        }
        find_run_as(&config, option, None)
    }

    // What is refused, and the words, are those of Suricata 8.0.7 with these values.
    #[test]
    fn the_user_of_the_configuration_is_found_or_refused() {
        let root = found(Some("root"), Some("root"), None).unwrap();
        assert_eq!(root, RunAs::find(Some("0"), Some("0")).unwrap());
        assert_eq!(found(None, None, None).unwrap(), RunAs::default());
        // The command line is stronger.
        assert_eq!(found(Some("no such user"), None, Some("0")).unwrap(), root);
        for (user, group, said) in [
            (Some("no such user"), None, "unable to get the user ID, check if user exist!!"),
            (
                Some("root"),
                Some("no such group"),
                "unable to get the group ID, check if group exist!!",
            ),
            (Some("root"), Some(""), "unable to get the group ID, check if group exist!!"),
            (
                Some(""),
                Some("root"),
                "no user name was provided - ensure it is specified either in \
              the configuration file (run-as.user) or in command-line arguments (--user)",
            ),
            (
                None,
                Some(""),
                "no group name was provided - ensure it is specified either in the \
              configuration file (run-as.group) or in command-line arguments (--group)",
            ),
        ] {
            let refused = found(user, group, None).unwrap_err().to_string();
            assert!(refused.starts_with(said), "{refused}");
        }
    }
}
