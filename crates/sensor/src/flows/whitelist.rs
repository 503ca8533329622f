//! The whitelist: which file the configuration or `--whitelist` names, and lists of organizations.

use super::lists::ListFiles;
use crate::{Error, Notices};

use gabion_behavior::whitelist::Whitelist;
use gabion_record::Tree;
use gabion_runtime::limits::NAMED_FILE_BYTES_MAX;
use gabion_runtime::operator_file;
use std::path::Path;

impl ListFiles {
    /// Reads the whitelist that is named, or the configuration's; an empty one where there is none, or where it is
    /// switched off. Entries that can't be read are reported.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn load_whitelist(
        tree: &Tree,
        named: Option<&Path>,
        notices: &Notices,
    ) -> Result<Whitelist, Error> {
        let is_off = tree
            .text("whitelists.enable_local_whitelist")
            .is_some_and(|t| matches!(t.trim().to_ascii_lowercase().as_str(), "false" | "no"));
        let configured = tree.text("whitelists.local_whitelist_path").map(str::trim);
        let path = match (named, configured) {
            (Some(path), _) => path,
            // Slips' configuration names a file of its own installation.
            (None, Some(path)) if !is_off && Path::new(path).is_file() => Path::new(path),
            _ => return Ok(Whitelist::default()),
        };
        let shown = path.display();
        let text = operator_file::text(path, NAMED_FILE_BYTES_MAX)
            .map_err(|source| Error::Whitelist { path: path.to_owned(), source })?;
        let folder = tree.text("gabion.organizations").map(str::trim).map(Path::new);
        let folder = folder.or(path.parent()).unwrap_or(Path::new(""));
        let list = |name: &str| operator_file::text(&folder.join(name), NAMED_FILE_BYTES_MAX).ok();
        let (list, wrong) = Whitelist::parse(&text, &list);
        wrong.iter().for_each(|what| notices.report(&format!("whitelist: {shown}: {what}")));
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_comes_from_the_configuration_or_the_command_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("whitelist.conf");
        std::fs::write(&path, "ip,1.2.3.4,both,alerts\norganization,acme,both,flows\n").unwrap();
        std::fs::write(dir.path().join("acme_domains"), "acme.example\n").unwrap();
        let mut tree = Tree::default();
        let load = |tree: &Tree, named| ListFiles::load_whitelist(tree, named, &Notices::default());
        assert!(load(&tree, None).unwrap().is_empty());
        assert_eq!(load(&tree, Some(&path)).unwrap().entries().len(), 2);
        tree.set("whitelists.local_whitelist_path", &path.to_string_lossy());
        assert_eq!(load(&tree, None).unwrap().entries().len(), 2);
        tree.set("whitelists.enable_local_whitelist", "False");
        assert!(load(&tree, None).unwrap().is_empty());
        assert!(load(&tree, Some(&dir.path().join("gone"))).is_err());
    }
}
