//! Reads keys of items: texts, truth values, lists, and what is to be appended or replaced.

use super::items::Items;
use super::report::{Checked, Code, Context, Message, Warnings, item};
use super::settings::Settings;
use super::yaml::{Node, Yaml};

/// What all readers of items need.
pub(super) struct Reading<'a> {
    pub(super) text: &'a str,
    pub(super) settings: &'a Settings,
    pub(super) items: &'a mut Items,
    pub(super) warnings: &'a mut Warnings,
}

impl Reading<'_> {
    pub(super) fn error(
        &self,
        context: &Context,
        code: Code,
        message: impl Into<String>,
    ) -> Box<Message> {
        Box::new(context.message(code, message, self.text))
    }

    pub(super) fn invalid(&self, context: &Context, message: impl Into<String>) -> Box<Message> {
        self.error(context, Code::YamlValidate, message)
    }

    pub(super) fn warn(&mut self, context: &Context, code: Code, message: impl Into<String>) {
        let message = context.message(code, message, self.text);
        self.warnings.messages.push(message);
    }

    /// The text of a key that must have one.
    pub(super) fn required_text(
        &self,
        node: &Node,
        key: &str,
        context: &Context,
    ) -> Checked<String> {
        self.optional_text(node, key, context)?
            .ok_or_else(|| self.invalid(context, format!("Item has no mapping for key '{key}'")))
    }

    /// The text of a key, if the key is there.
    pub(super) fn optional_text(
        &self,
        node: &Node,
        key: &str,
        context: &Context,
    ) -> Checked<Option<String>> {
        let Some(value) = node.get(key) else { return Ok(None) };
        let place = context.child(item::VALUE_FOR, key, value);
        match &value.value {
            Yaml::Null => Err(self.invalid(context, format!("Mapping for key '{key}' is empty"))),
            Yaml::Scalar(text, _) if text.is_empty() => {
                Err(self.invalid(&place, "Value must be non-empty"))
            }
            Yaml::Scalar(text, _) => Ok(Some(text.clone())),
            Yaml::Sequence(_) | Yaml::Mapping(_) => {
                Err(self.invalid(&place, "Value is not a scalar value"))
            }
        }
    }

    /// The truth value of a key, if the key is there.
    pub(super) fn optional_bool(
        &self,
        node: &Node,
        key: &str,
        context: &Context,
    ) -> Checked<Option<bool>> {
        let Some(text) = self.optional_text(node, key, context)? else { return Ok(None) };
        match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "y" => Ok(Some(true)),
            "false" | "no" | "off" | "n" => Ok(Some(false)),
            _ => {
                let place = node.get(key).map(|value| context.child(item::VALUE_FOR, key, value));
                Err(self
                    .invalid(place.as_ref().unwrap_or(context), "Can't decode YAML scalar value"))
            }
        }
    }

    /// The number of a key, if the key is there.
    pub(super) fn optional_number(
        &self,
        node: &Node,
        key: &str,
        context: &Context,
    ) -> Checked<Option<u64>> {
        let Some(text) = self.optional_text(node, key, context)? else { return Ok(None) };
        let place = node.get(key).map(|value| context.child(item::VALUE_FOR, key, value));
        text.parse().map(Some).map_err(|_| {
            self.invalid(place.as_ref().unwrap_or(context), "Can't decode YAML scalar value")
        })
    }

    /// The texts of a key that is a list, if the key is there.
    pub(super) fn optional_texts(
        &self,
        node: &Node,
        key: &str,
        context: &Context,
    ) -> Checked<Option<Vec<String>>> {
        let Some(value) = node.get(key) else { return Ok(None) };
        let place = context.child(item::VALUE_FOR, key, value);
        if value.is_null() {
            return Err(self.invalid(context, format!("Mapping for key '{key}' is empty")));
        }
        let Some(items) = value.sequence() else {
            return Err(self.invalid(&place, "Value is not a sequence"));
        };
        let texts: Option<Vec<String>> =
            items.iter().map(|item| item.scalar().map(str::to_string)).collect();
        texts.map(Some).ok_or_else(|| self.invalid(&place, "sequence value is not scalar"))
    }

    /// Warns of keys that mean nothing.
    pub(super) fn check_keys(&mut self, node: &Node, known: &[&str], context: &Context) {
        let keys = node.pairs().unwrap_or_default().iter().filter_map(|(key, _)| key.scalar());
        let unknown: Vec<String> =
            keys.filter(|key| !known.contains(key)).map(str::to_string).collect();
        for key in unknown {
            self.warn(
                context,
                Code::UnknownKey,
                format!("Unknown key '{key}'. The key will be ignored."),
            );
        }
    }

    /// Whether a list or a macro is to be appended to, by `append: true` or by `override`.
    pub(super) fn is_appended(
        &mut self,
        node: &Node,
        key: &str,
        context: &Context,
    ) -> Checked<bool> {
        let append = self.optional_bool(node, "append", context)?;
        let overrides = read_overrides(self, node, &[key], &[key], context)?;
        if append == Some(true) && overrides.is_some() {
            let message = format!(
                "Keys 'override' and 'append: true' cannot be used together. Add an 'append' entry (e.g. \
                 '{key}: append') under 'override' instead."
            );
            return Err(self.error(context, Code::Validate, message));
        }
        if append.is_some() {
            self.warn_append(key, context);
        }
        let by_override = overrides.is_some_and(|o| o.append.iter().any(|name| name == key));
        Ok(append == Some(true) || by_override)
    }

    pub(super) fn warn_append(&mut self, key: &str, context: &Context) {
        let message = format!(
            "'append' key is deprecated. Add an 'append' entry (e.g. '{key}: append') under 'override' instead."
        );
        self.warn(context, Code::DeprecatedItem, message);
    }
}

/// What an `override` key asks for.
#[derive(Debug, Default)]
pub(super) struct Overrides {
    pub(super) append: Vec<String>,
    pub(super) replace: Vec<String>,
    pub(super) context: Option<Context>,
}

/// Reads the `override` key.
pub(super) fn read_overrides(
    reading: &Reading<'_>,
    node: &Node,
    appendable: &[&str],
    replaceable: &[&str],
    context: &Context,
) -> Checked<Option<Overrides>> {
    let Some(value) = node.get("override") else { return Ok(None) };
    let context = context.child(item::OVERRIDES, "", value);
    let Some(pairs) = value.pairs() else {
        return Err(reading.invalid(&context, "Value is not a mapping"));
    };
    let mut overrides = Overrides::default();
    for (key, operation) in pairs {
        let key_text = key.scalar().unwrap_or_default().to_string();
        let place = context.child(item::VALUE_FOR, &key_text, key);
        match operation.scalar().unwrap_or_default() {
            "append" if !appendable.contains(&key_text.as_str()) => {
                let message =
                    format!("Key '{key_text}' cannot be appended to, use 'replace' instead");
                return Err(reading.invalid(&place, message));
            }
            "replace" if !replaceable.contains(&key_text.as_str()) => {
                return Err(reading.invalid(&place, format!("Key '{key_text}' cannot be replaced")));
            }
            "append" => overrides.append.push(key_text),
            "replace" => overrides.replace.push(key_text),
            other => {
                let message = format!(
                    "Invalid override operation for key '{key_text}': '{other}'. Allowed values are: append replace "
                );
                return Err(reading.invalid(&place, message));
            }
        }
    }
    overrides.context = Some(context);
    Ok(Some(overrides))
}
