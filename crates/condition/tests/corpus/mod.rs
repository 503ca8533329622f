//! Finds the shared corpus, skips a test by name where there is none, and reads the corpus's YAML.
#![allow(dead_code, reason = "each test file uses a part")]

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// A file or folder of the corpus.
pub(crate) fn corpus(test: &str, path: &str) -> Option<PathBuf> {
    gabion_corpus::find(test, path)
}

/// The first document of a YAML text.
pub(crate) fn yaml(text: &str) -> Value {
    let mut events = Parser::new_from_str(text);
    loop {
        match events.next() {
            Some(Ok((Event::StreamEnd, _))) | None => return Value::Null,
            Some(Ok((event @ (Event::MappingStart(..) | Event::SequenceStart(..)), _))) => {
                return node(event, &mut events);
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => panic!("the corpus is YAML: {error}"),
        }
    }
}

fn next_event<'t>(events: &mut Parser<'t, StrInput<'t>>) -> Event<'t> {
    events.next().unwrap().unwrap().0
}

fn node<'t>(event: Event<'t>, events: &mut Parser<'t, StrInput<'t>>) -> Value {
    match event {
        Event::Scalar(text, ScalarStyle::Plain, ..) => match &*text {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "" | "null" | "~" => Value::Null,
            text => text.parse::<i64>().map_or(Value::String(text.to_string()), Value::from),
        },
        Event::Scalar(text, ..) => Value::String(text.into_owned()),
        Event::SequenceStart(..) => {
            let mut items = Vec::new();
            loop {
                match next_event(events) {
                    Event::SequenceEnd => return Value::Array(items),
                    event => items.push(node(event, events)),
                }
            }
        }
        Event::MappingStart(..) => {
            let mut map = Map::new();
            loop {
                let key = match next_event(events) {
                    Event::MappingEnd => return Value::Object(map),
                    event => node(event, events),
                };
                let event = next_event(events);
                let key = key.as_str().map_or_else(|| key.to_string(), str::to_string);
                map.insert(key, node(event, events));
            }
        }
        _ => Value::Null,
    }
}
