//! `suricata.config`: where outputs are written.

use super::{Library, member};

pub(super) const LIBRARY: Library = Library {
    name: "config",
    class: "suricata:config",
    functions: &[member("log_path", |c| c.give(c.setup.log_folder.as_str()))],
    methods: &[],
};
