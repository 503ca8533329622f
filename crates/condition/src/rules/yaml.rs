//! YAML as rule files have it: a tree in which each node knows its place.

use crate::limits::{YAML_DEPTH_MAX, YAML_NODES_MAX};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, StrInput};
use std::collections::HashMap;

/// The place of a node in its file; lines and columns count from 0, as in Falco's reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The line.
    pub line: usize,
    /// The column in characters.
    pub column: usize,
    /// Characters before it.
    pub offset: usize,
}

impl Mark {
    fn new(marker: &Marker) -> Mark {
        Mark { line: marker.line().saturating_sub(1), column: marker.col(), offset: marker.index() }
    }
}

/// A node of the tree.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) value: Yaml,
    pub(super) mark: Mark,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Yaml {
    Null,
    /// Text, and whether it was in quotes.
    Scalar(String, bool),
    Sequence(Vec<Node>),
    Mapping(Vec<(Node, Node)>),
}

impl Node {
    /// The value of a key of a mapping.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Yaml::Mapping(pairs) => {
                pairs.iter().find(|(name, _)| name.scalar() == Some(key)).map(|(_, value)| value)
            }
            Yaml::Null | Yaml::Scalar(..) | Yaml::Sequence(_) => None,
        }
    }

    pub(super) fn scalar(&self) -> Option<&str> {
        match &self.value {
            Yaml::Scalar(text, _) => Some(text),
            Yaml::Null | Yaml::Sequence(_) | Yaml::Mapping(_) => None,
        }
    }

    pub(super) fn sequence(&self) -> Option<&[Node]> {
        match &self.value {
            Yaml::Sequence(items) => Some(items),
            Yaml::Null | Yaml::Scalar(..) | Yaml::Mapping(_) => None,
        }
    }

    pub(super) fn pairs(&self) -> Option<&[(Node, Node)]> {
        match &self.value {
            Yaml::Mapping(pairs) => Some(pairs),
            Yaml::Null | Yaml::Scalar(..) | Yaml::Sequence(_) => None,
        }
    }

    pub(super) fn is_null(&self) -> bool {
        self.value == Yaml::Null
    }
}

/// Text that is no YAML.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct YamlError {
    pub(super) mark: Mark,
    pub(super) message: String,
}

/// Reads all documents of a file.
///
/// Falco's parser accepts a closing bracket that is indented no more than the key of its list, as shipped rule files have
/// it. Ours does not: such brackets are moved to the right, and the file is read again.
pub(super) fn read_documents(text: &str) -> Result<Vec<Node>, YamlError> {
    match read_strictly(text) {
        Err(error) if error.message.ends_with("invalid indentation") => {
            read_strictly(&with_indented_brackets(text)).map_err(|_| error)
        }
        other => other,
    }
}

/// The text with more blanks before closing brackets that are alone on their line. Lines keep their numbers.
fn with_indented_brackets(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 256);
    for line in text.split_inclusive('\n') {
        let content = line.trim();
        if content.starts_with([']', '}'])
            && content.chars().all(|c| matches!(c, ']' | '}' | ',' | ' '))
        {
            out.push_str("                ");
        }
        out.push_str(line);
    }
    out
}

fn read_strictly(text: &str) -> Result<Vec<Node>, YamlError> {
    let mut reader =
        Reader { events: Parser::new_from_str(text), anchors: HashMap::new(), nodes: 0 };
    let mut documents = Vec::new();
    loop {
        let (event, mark) = reader.next()?;
        match event {
            Event::StreamEnd => return Ok(documents),
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd => {}
            event => documents.push(reader.node(event, mark, 0)?),
        }
    }
}

struct Reader<'t> {
    events: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Mark), YamlError> {
        match self.events.next() {
            Some(Ok((event, span))) => Ok((event, Mark::new(&span.start))),
            Some(Err(error)) => {
                let mark = Mark::new(error.marker());
                Err(YamlError { mark, message: in_falcos_words(error.info(), mark) })
            }
            None => Ok((Event::StreamEnd, Mark::default())),
        }
    }

    fn node(&mut self, event: Event<'t>, mark: Mark, depth: usize) -> Result<Node, YamlError> {
        self.count(1, mark)?;
        if depth > YAML_DEPTH_MAX {
            return Err(YamlError {
                mark,
                message: format!("nested more than {YAML_DEPTH_MAX} deep"),
            });
        }
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, _) => {
                let is_plain = style == ScalarStyle::Plain;
                let is_null = is_plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let value =
                    if is_null { Yaml::Null } else { Yaml::Scalar(text.into_owned(), !is_plain) };
                (value, anchor)
            }
            Event::SequenceStart(anchor, _) => {
                let mut items = Vec::new();
                loop {
                    let (event, mark) = self.next()?;
                    match event {
                        Event::SequenceEnd | Event::StreamEnd => break,
                        event => items.push(self.node(event, mark, depth + 1)?),
                    }
                }
                (Yaml::Sequence(items), anchor)
            }
            Event::MappingStart(anchor, _) => {
                let mut pairs = Vec::new();
                loop {
                    let (event, mark) = self.next()?;
                    if matches!(event, Event::MappingEnd | Event::StreamEnd) {
                        break;
                    }
                    let key = self.node(event, mark, depth + 1)?;
                    let (event, mark) = self.next()?;
                    let value = self.node(event, mark, depth + 1)?;
                    pairs.push((key, value));
                }
                (Yaml::Mapping(pairs), anchor)
            }
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                let node = node.unwrap_or(Node { value: Yaml::Null, mark });
                self.count(size_of(&node), mark)?;
                return Ok(Node { value: node.value, mark });
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => {
                (Yaml::Null, 0)
            }
            Event::DocumentEnd | Event::SequenceEnd | Event::MappingEnd => (Yaml::Null, 0),
        };
        let node = Node { value, mark };
        if anchor > 0 {
            self.count(size_of(&node), mark)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    /// Counts nodes, so that aliases of aliases end.
    fn count(&mut self, nodes: usize, mark: Mark) -> Result<(), YamlError> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > YAML_NODES_MAX {
            return Err(YamlError { mark, message: format!("more than {YAML_NODES_MAX} nodes") });
        }
        Ok(())
    }
}

fn size_of(node: &Node) -> usize {
    match &node.value {
        Yaml::Null | Yaml::Scalar(..) => 1,
        Yaml::Sequence(items) => 1 + items.iter().map(size_of).sum::<usize>(),
        Yaml::Mapping(pairs) => {
            1 + pairs.iter().map(|(key, value)| size_of(key) + size_of(value)).sum::<usize>()
        }
    }
}

/// The message as Falco reports it: with the place, lines and columns from 1, and its parser's words for common faults.
fn in_falcos_words(message: &str, mark: Mark) -> String {
    let reason = match message {
        "mapping values are not allowed in this context" => "illegal map value",
        other => other,
    };
    format!("yaml-cpp: error at line {}, column {}: {reason}", mark.line + 1, mark.column + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_know_their_places() {
        let documents = read_documents("- rule: a\n  tags: [x, 1]\n---\n- macro: ~\n").unwrap();
        assert_eq!(documents.len(), 2);
        let item = &documents[0].sequence().unwrap()[0];
        assert_eq!(item.mark.line, 0);
        assert_eq!(item.mark.column, 2);
        assert_eq!(item.get("tags").unwrap().sequence().unwrap().len(), 2);
        assert!(documents[1].sequence().unwrap()[0].get("macro").unwrap().is_null());
        let error = read_documents("this : is : not : yaml").unwrap_err();
        assert_eq!(error.message, "yaml-cpp: error at line 1, column 11: illegal map value");
    }

    #[test]
    fn closing_brackets_may_be_indented_as_their_key() {
        let documents =
            read_documents("- list: a\n  items: [\n    x,\n    y\n  ]\n- macro: b\n").unwrap();
        let items = documents[0].sequence().unwrap();
        assert_eq!(items[0].get("items").unwrap().sequence().unwrap().len(), 2);
        assert_eq!(items[1].mark.line, 5);
    }

    #[test]
    fn aliases_of_aliases_end_at_the_limit() {
        let mut text = "a: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_string();
        for i in 0..9 {
            let list = vec![format!("*a{i}"); 10].join(", ");
            text.push_str(&format!("b{i}: &a{} [{list}]\n", i + 1));
        }
        assert!(read_documents(&text).unwrap_err().message.contains("nodes"));
        let deep = "[".repeat(YAML_DEPTH_MAX + 10);
        assert!(read_documents(&deep).is_err());
    }
}
