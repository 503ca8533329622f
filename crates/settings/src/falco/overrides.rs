//! Options of the form `-o key=value`: dots go into mappings, `[2]` into lists, `[]` appends to a list, and a backslash
//! takes its meaning from the next character.

use crate::limits::OVERRIDE_INDEX_MAX;
use gabion_record::Tree;
use thiserror::Error;

/// An option that can't be applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadOverride {
    /// There is no `=`.
    #[error("Error parsing option '{0}': expected key=value")]
    NoValue(String),
    /// The key is not of the form.
    #[error("Error parsing key '{0}': expected names, dots and [index]")]
    BadKey(String),
}

enum Step {
    Name(String),
    Index(usize),
    Append,
}

/// Applies one option to a configuration. A value of the form `[a, b]` is a list.
///
/// # Errors
/// The option is not of the form.
pub fn apply_override(config: &mut Tree, option: &str) -> Result<(), BadOverride> {
    let (key, value) =
        option.split_once('=').ok_or_else(|| BadOverride::NoValue(option.to_string()))?;
    let steps = steps_of(key).ok_or_else(|| BadOverride::BadKey(key.to_string()))?;
    let mut node = config;
    for step in &steps {
        node.value = None;
        node = match step {
            Step::Name(name) => {
                let at = node.children.iter().position(|(child, _)| child == name);
                let at = at.unwrap_or_else(|| {
                    node.children.push((name.clone(), Tree::default()));
                    node.children.len() - 1
                });
                &mut node.children[at].1
            }
            Step::Append | Step::Index(_) => {
                node.is_sequence = true;
                let at = if let Step::Index(at) = step { *at } else { node.children.len() };
                while node.children.len() <= at {
                    node.children.push((node.children.len().to_string(), Tree::default()));
                }
                &mut node.children[at].1
            }
        };
    }
    *node = value_of(value);
    Ok(())
}

fn value_of(value: &str) -> Tree {
    let inner = value.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match inner {
        Some(items) => {
            let items = items.split(',').map(str::trim).filter(|item| !item.is_empty());
            let children = items
                .enumerate()
                .map(|(i, item)| (i.to_string(), Tree::leaf(item.trim_matches(['"', '\'']))));
            Tree { children: children.collect(), is_sequence: true, ..Tree::default() }
        }
        None => Tree::leaf(value),
    }
}

fn steps_of(key: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut name = String::new();
    let mut chars = key.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?),
            '.' => {
                if !name.is_empty() {
                    steps.push(Step::Name(std::mem::take(&mut name)));
                }
            }
            '[' => {
                if !name.is_empty() {
                    steps.push(Step::Name(std::mem::take(&mut name)));
                }
                let digits: String = chars.by_ref().take_while(|c| *c != ']').collect();
                steps.push(match digits.as_str() {
                    "" => Step::Append,
                    digits => Step::Index(digits.parse().ok().filter(|n| *n < OVERRIDE_INDEX_MAX)?),
                });
            }
            c => name.push(c),
        }
    }
    if !name.is_empty() {
        steps.push(Step::Name(name));
    }
    (!steps.is_empty()).then_some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_into_mappings_and_lists() {
        let mut config = Tree::default();
        for option in [
            "engine.kind=replay",
            "rules[].disable.rule=*",
            "rules[].enable.tag=a=b",
            "load_plugins[0]=container",
            "a\\.b=1",
            "list=[x, 'y']",
        ] {
            apply_override(&mut config, option).unwrap();
        }
        assert_eq!(config.text("engine.kind"), Some("replay"));
        assert_eq!(config.text("rules.0.disable.rule"), Some("*"));
        assert_eq!(config.text("rules.1.enable.tag"), Some("a=b"));
        assert_eq!(config.text("load_plugins.0"), Some("container"));
        assert_eq!(config.child("a.b").and_then(|node| node.value.as_deref()), Some("1"));
        assert_eq!(config.text("list.1"), Some("y"));
        assert!(apply_override(&mut config, "novalue").is_err());
        assert!(apply_override(&mut config, "a[99999999999]=x").is_err());
    }
}
