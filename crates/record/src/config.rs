//! The resolved configuration: an ordered tree of named nodes, as read from YAML and changed by
//! `--set`. Who reads the file is the front door's business; engines and protocols look things up
//! here by dotted path (`app-layer.protocols.http.enabled`) and turn them into their own types once.

/// A node of the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    /// The scalar of a leaf, as written (after quotes were taken off).
    pub value: Option<String>,
    /// Children in order. The children of a sequence are named `0`, `1`, …
    pub children: Vec<(String, Tree)>,
    /// Children are items of a sequence.
    pub is_sequence: bool,
    /// Line in the file the node came from, 0 when unknown.
    pub line: u32,
}

impl Tree {
    /// A leaf.
    pub fn leaf(value: impl Into<String>) -> Tree {
        Tree { value: Some(value.into()), ..Tree::default() }
    }

    /// The child of that name.
    pub fn child(&self, name: &str) -> Option<&Tree> {
        self.children.iter().find(|(n, _)| n == name).map(|(_, t)| t)
    }

    /// The same, to be changed.
    pub fn child_mut(&mut self, name: &str) -> Option<&mut Tree> {
        self.children.iter_mut().find(|(n, _)| n == name).map(|(_, t)| t)
    }

    /// The node at a dotted path. A part may itself contain dots when a child of that full name
    /// exists. A sequence item that is a mapping of one key (`- fast: {…}`) is found by that key too
    /// through [`Tree::item`].
    pub fn get(&self, path: &str) -> Option<&Tree> {
        if path.is_empty() {
            return Some(self);
        }
        if let Some(t) = self.child(path) {
            return Some(t);
        }
        let mut from = 0;
        while let Some(dot) = path.get(from..).and_then(|p| p.find('.')) {
            let at = from + dot;
            if let Some(t) = self.child(&path[..at])
                && let Some(found) = t.get(&path[at + 1..])
            {
                return Some(found);
            }
            from = at + 1;
        }
        None
    }

    /// The scalar at a path.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.get(path)?.value.as_deref()
    }

    /// The truth value at a path: `yes`, `true`, `on`, `1` and their opposites, in any case.
    pub fn flag(&self, path: &str) -> Option<bool> {
        truth(self.text(path)?)
    }

    /// The whole number at a path, decimal or `0x…`.
    pub fn number(&self, path: &str) -> Option<u64> {
        let t = self.text(path)?.trim();
        match t.strip_prefix("0x") {
            Some(h) => u64::from_str_radix(h, 16).ok(),
            None => t.parse().ok(),
        }
    }

    /// The size in bytes at a path: `10mb`, `64 KiB`, `1gb`, or a plain number; Suricata's units are
    /// all powers of 1,024.
    pub fn size(&self, path: &str) -> Option<u64> {
        parse_size(self.text(path)?)
    }

    /// The item of a sequence of one-key mappings whose key is `name` (`outputs: - eve-log: {…}`).
    pub fn item(&self, name: &str) -> Option<&Tree> {
        self.children.iter().find_map(|(_, t)| {
            if t.value.as_deref() == Some(name) { Some(t) } else { t.child(name) }
        })
    }

    /// All items of a sequence of one-key mappings whose key is `name`, in order.
    pub fn items<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Tree> {
        self.children.iter().filter_map(move |(_, t)| t.child(name))
    }

    /// Sets the leaf at a dotted path, making what is missing (`--set a.b.0.c=v`).
    pub fn set(&mut self, path: &str, value: &str) {
        let (head, rest) = match path.split_once('.') {
            Some((h, r)) => (h, Some(r)),
            None => (path, None),
        };
        let at = match self.children.iter().position(|(n, _)| n == head) {
            Some(at) => at,
            None => {
                self.children.push((head.to_string(), Tree::default()));
                self.children.len() - 1
            }
        };
        let child = &mut self.children[at].1;
        match rest {
            Some(rest) => child.set(rest, value),
            None => child.value = Some(value.to_string()),
        }
    }
}

/// `yes/true/on/1` or `no/false/off/0`, in any case.
pub fn truth(text: &str) -> Option<bool> {
    let t = text.trim();
    let is = |words: &[&str]| words.iter().any(|w| t.eq_ignore_ascii_case(w));
    if is(&["yes", "true", "on", "1"]) {
        Some(true)
    } else if is(&["no", "false", "off", "0"]) {
        Some(false)
    } else {
        None
    }
}

/// A size with an optional unit (`b`, `kb`, `KiB`, `mb`, `MiB`, `gb`, `GiB`), fractions allowed.
pub fn parse_size(text: &str) -> Option<u64> {
    let t = text.trim();
    let digits = t.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(t.len());
    let (n, unit) = t.split_at(digits);
    let n: f64 = n.parse().ok()?;
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" | "kib" | "k" => 1 << 10,
        "mb" | "mib" | "m" => 1 << 20,
        "gb" | "gib" | "g" => 1 << 30,
        _ => return None,
    };
    let bytes = n * factor as f64;
    (bytes.is_finite() && bytes >= 0.0).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_find_nodes_and_set_makes_them() {
        let mut t = Tree::default();
        t.set("app-layer.protocols.http.enabled", "yes");
        t.set("outputs.0.fast.filename", "fast.log");
        assert_eq!(t.flag("app-layer.protocols.http.enabled"), Some(true));
        assert_eq!(
            t.get("outputs").unwrap().item("fast").unwrap().text("filename"),
            Some("fast.log")
        );
        assert_eq!(t.get("outputs.1"), None);
    }

    #[test]
    fn sizes_as_suricata_reads_them() {
        for (text, bytes) in
            [("10mb", 10 << 20), ("64 KiB", 64 << 10), ("1gb", 1 << 30), ("100", 100)]
        {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        assert_eq!(parse_size("ten"), None);
    }
}
