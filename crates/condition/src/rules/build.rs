//! Compiles all items that were read: lists into conditions, macros into rules, rules into one program.

use super::described::{Described, DescribedList, DescribedMacro, DescribedRule};
use super::exceptions::with_exceptions;
use super::items::{Items, List, Order, RuleItem};
use super::report::{Checked, Code, Context, Warnings};
use super::set::{Rule, RuleSet};
use super::settings::Settings;
use super::text::{insert_lists, quote_item};
use crate::compile::{Builder, CompileError};
use crate::format::Format;
use crate::lang::{self, Expr, visit_fields};
use crate::limits::TYPES_WITHOUT_WARNING;
use gabion_record::fields::FieldId;
use gabion_record::fields::events::ASYNC_EVENT;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A list whose items are all texts.
struct BuiltList<'a> {
    list: &'a List,
    texts: Vec<String>,
    lists: Vec<String>,
    is_used: Cell<bool>,
}

/// A macro whose own macros are expanded.
struct BuiltMacro {
    expr: Arc<Expr>,
    order: Order,
    is_used: Cell<bool>,
}

struct Build<'a> {
    items: &'a Items,
    settings: &'a Settings,
    text: &'a str,
    lists: Vec<BuiltList<'a>>,
    macros: Vec<Option<BuiltMacro>>,
    builder: Builder,
    described: Described,
}

/// Compiles everything; `text` is the file that is being loaded, for snippets.
pub(super) fn build(
    items: &Items,
    settings: &Settings,
    text: &str,
    warnings: &mut Warnings,
) -> Checked<RuleSet> {
    let mut build = Build {
        items,
        settings,
        text,
        lists: Vec::new(),
        macros: Vec::new(),
        builder: Builder::new(),
        described: Described {
            engine_version: items.engine_version,
            plugins: items.plugins.clone(),
            ..Described::default()
        },
    };
    items.lists.iter().for_each(|list| build.add_list(list));
    for at in 0..items.macros.iter().len() {
        build.add_macro(at)?;
    }
    let mut rules = Vec::new();
    for rule in items.rules.iter().filter(|rule| rule.priority <= settings.priority) {
        if let Some(rule) = build.add_rule(rule, warnings)? {
            rules.push(rule);
        }
    }
    Ok(build.finish(rules, warnings))
}

impl<'a> Build<'a> {
    fn add_list(&mut self, list: &'a List) {
        let (mut texts, mut lists) = (Vec::new(), Vec::new());
        for item in &list.items {
            match self.list(item, list.order).filter(|other| other.list.name != list.name) {
                Some(other) => {
                    texts.extend(other.texts.iter().cloned());
                    lists.push(item.clone());
                }
                None => texts.push(quote_item(item)),
            }
        }
        self.lists.push(BuiltList { list, texts, lists, is_used: Cell::new(false) });
    }

    /// The list of this name, if an item of this order sees it. It counts as used from then on.
    fn list(&self, name: &str, order: Order) -> Option<&BuiltList<'a>> {
        let built = self.lists.get(self.items.lists.position(name)?)?;
        if !order.sees(built.list.order) {
            return None;
        }
        built.is_used.set(true);
        Some(built)
    }

    /// The condition with its lists in place, and their names.
    fn with_lists(&self, condition: &str) -> (String, Vec<String>) {
        let names = RefCell::new(BTreeSet::new());
        let text = insert_lists(condition, |word| {
            let built = self.list(word, Order::LAST)?;
            names.borrow_mut().insert(word.to_string());
            Some(&built.texts)
        });
        (text, names.into_inner().into_iter().collect())
    }

    fn parse(&self, text: &str, context: &Context) -> Checked<Expr> {
        lang::parse(text).map_err(|error| {
            let place = context.in_condition(text, error.position);
            Box::new(place.message(Code::CompileCondition, error.message, self.text))
        })
    }

    fn add_macro(&mut self, at: usize) -> Checked<()> {
        let Some(item) = self.items.macros.iter().nth(at) else { return Ok(()) };
        let (text, lists) = self.with_lists(&item.condition);
        let expr = self.parse(&text, &item.context)?;
        let macros = names_of(&expr);
        let expr = Arc::new(self.expand(expr, item.order, &text, &item.context)?);
        self.macros.push(Some(BuiltMacro {
            expr: expr.clone(),
            order: item.order,
            is_used: Cell::new(false),
        }));
        self.described.macros.push(DescribedMacro {
            name: item.name.clone(),
            condition: item.condition.clone(),
            expr,
            lists,
            macros,
            is_used: false,
        });
        Ok(())
    }

    /// Puts macros in the place of their names. A macro sees only those before it, so that no circle is possible.
    fn expand(&self, expr: Expr, order: Order, text: &str, context: &Context) -> Checked<Expr> {
        let group = |parts: Vec<Expr>| -> Checked<Vec<Expr>> {
            parts.into_iter().map(|part| self.expand(part, order, text, context)).collect()
        };
        Ok(match expr {
            Expr::And(parts) => Expr::And(group(parts)?),
            Expr::Or(parts) => Expr::Or(group(parts)?),
            Expr::Not(inner) => Expr::Not(Box::new(self.expand(*inner, order, text, context)?)),
            Expr::Macro(name, position) => {
                let built =
                    self.items.macros.position(&name).and_then(|at| self.macros.get(at)?.as_ref());
                let Some(built) = built.filter(|built| order.sees(built.order)) else {
                    let place = context.in_condition(text, position);
                    let message = format!("Undefined macro '{name}' used in filter.");
                    return Err(Box::new(place.message(Code::Validate, message, self.text)));
                };
                built.is_used.set(true);
                Expr::Expanded(name, built.expr.clone())
            }
            Expr::Exists(..) | Expr::Compare { .. } | Expr::Expanded(..) => expr,
        })
    }

    fn add_rule(&mut self, item: &RuleItem, warnings: &mut Warnings) -> Checked<Option<Rule>> {
        let condition =
            with_exceptions(&item.condition, &item.exceptions).map_err(|(context, message)| {
                Box::new(context.message(Code::Validate, message, self.text))
            })?;
        let (text, lists) = self.with_lists(&condition);
        let expr = self.parse(&text, &item.context)?;
        let macros = names_of(&expr);
        let expr = self.expand(expr, Order::LAST, &text, &item.context)?;
        let node = match self.builder.add(&expr) {
            Ok(node) => node,
            Err(CompileError { fault, position }) => {
                let place = item.context.in_condition(&text, position);
                let is_skipped = item.skips_unknown && fault.is_unknown_name();
                let code = if is_skipped { Code::UnknownFilter } else { Code::CompileCondition };
                let message = place.message(code, fault.to_string(), self.text);
                if is_skipped {
                    warnings.messages.push(message);
                    return Ok(None);
                }
                return Err(Box::new(message));
            }
        };
        let Some((output, extra_fields)) = self.output(item, warnings)? else { return Ok(None) };
        let types = self.builder.types(node);
        if item.warns_of_types && types.len() > TYPES_WITHOUT_WARNING {
            let message = "Rule matches too many evt.type values. This has a significant performance penalty.";
            warnings.messages.push(item.context.message(Code::NoEvtType, message, self.text));
        }
        self.warn_deprecated(item, &expr, &output, warnings);
        let mut described_types = types;
        described_types.insert(ASYNC_EVENT);
        self.described.rules.push(DescribedRule {
            item: item.clone(),
            expr: Arc::new(expr),
            lists,
            macros,
            types: described_types,
        });
        Ok(Some(Rule {
            name: item.name.clone(),
            source: item.source.clone(),
            description: item.description.clone(),
            priority: item.priority,
            tags: item.tags.clone(),
            is_enabled: item.is_enabled,
            output,
            extra_fields,
            capture: item.capture,
            capture_duration_ms: item.capture_duration_ms,
            types,
            condition: node,
        }))
    }

    /// Compiles the output with what the configuration adds; none if the rule is skipped for it.
    #[allow(
        clippy::type_complexity,
        reason = "a template and further fields, each with its template"
    )]
    fn output(
        &self,
        item: &RuleItem,
        warnings: &mut Warnings,
    ) -> Checked<Option<(Format, Vec<(String, Format)>)>> {
        let mut text = item.output.clone();
        let mut extra = Vec::new();
        let additions = self.settings.append_output.iter();
        for addition in additions.filter(|a| a.is_for(&item.name, &item.source, &item.tags)) {
            if !addition.extra_output.is_empty() {
                text.push(' ');
                text.push_str(&addition.extra_output);
            }
            for (name, template) in &addition.extra_fields {
                let is_name = !template.contains('%');
                extra.push((
                    name.clone(),
                    if is_name { format!("%{template}") } else { template.clone() },
                ));
            }
        }
        let compile = || -> Result<_, crate::format::FormatError> {
            let fields: Result<Vec<_>, _> = extra
                .iter()
                .map(|(name, template)| Ok((name.clone(), Format::new(template)?)))
                .collect();
            Ok((Format::new(&text)?, fields?))
        };
        match compile() {
            Ok(output) => Ok(Some(output)),
            Err(error) => {
                let code =
                    if item.skips_unknown { Code::UnknownFilter } else { Code::CompileOutput };
                let message = item.output_context.message(code, error.to_string(), self.text);
                if item.skips_unknown {
                    warnings.messages.push(message);
                    return Ok(None);
                }
                Err(Box::new(message))
            }
        }
    }

    /// Warns of deprecated fields: once for the condition and once for the output of a rule.
    fn warn_deprecated(
        &self,
        item: &RuleItem,
        expr: &Expr,
        output: &Format,
        warnings: &mut Warnings,
    ) {
        let mut names = Vec::new();
        visit_fields(expr, &mut |field| {
            let id = FieldId::by_name(&field.name).filter(|id| id.field().flags.deprecated);
            if let Some(name) = id.map(FieldId::name).filter(|name| !names.contains(name)) {
                names.push(name);
            }
        });
        for name in names {
            let message = format!(
                "usage of deprecated field '{name}' has been detected in the rule condition"
            );
            let message = item.condition_context.message(Code::DeprecatedItem, message, self.text);
            warnings.messages.push(message);
        }
        for name in output.deprecated_fields() {
            let message =
                format!("usage of deprecated field '{name}' has been detected in the rule output");
            warnings.messages.push(item.output_context.message(
                Code::DeprecatedItem,
                message,
                self.text,
            ));
        }
        if output.has_container_info() {
            let message =
                "usage of deprecated field 'container.info' has been detected in the rule output";
            warnings.messages.push(item.output_context.message(
                Code::DeprecatedItem,
                message,
                self.text,
            ));
        }
    }

    fn finish(mut self, rules: Vec<Rule>, warnings: &mut Warnings) -> RuleSet {
        for (built, item) in self.macros.iter().zip(self.items.macros.iter()) {
            if built.as_ref().is_some_and(|built| !built.is_used.get()) {
                let message = "Macro not referred to by any other rule/macro";
                warnings.messages.push(item.context.message(Code::UnusedMacro, message, self.text));
            }
        }
        for built in self.lists.iter().filter(|built| !built.is_used.get()) {
            let message = "List not referred to by any other rule/macro";
            warnings.messages.push(built.list.context.message(
                Code::UnusedList,
                message,
                self.text,
            ));
        }
        for (built, described) in self.macros.iter().zip(&mut self.described.macros) {
            described.is_used = built.as_ref().is_some_and(|built| built.is_used.get());
        }
        self.described.lists = self
            .lists
            .into_iter()
            .map(|built| DescribedList {
                name: built.list.name.clone(),
                items: built
                    .list
                    .items
                    .iter()
                    .filter(|item| !built.lists.contains(item))
                    .cloned()
                    .collect(),
                compiled: built.texts,
                lists: built.lists,
                is_used: built.is_used.get(),
            })
            .collect();
        RuleSet::new(self.builder.finish(), rules, self.described)
    }
}

/// The names of macros in a condition that is not expanded yet.
fn names_of(expr: &Expr) -> Vec<String> {
    fn visit(expr: &Expr, names: &mut BTreeSet<String>) {
        match expr {
            Expr::And(parts) | Expr::Or(parts) => parts.iter().for_each(|part| visit(part, names)),
            Expr::Not(inner) => visit(inner, names),
            Expr::Macro(name, _) => {
                names.insert(name.clone());
            }
            Expr::Exists(..) | Expr::Compare { .. } | Expr::Expanded(..) => {}
        }
    }
    let mut names = BTreeSet::new();
    visit(expr, &mut names);
    names.into_iter().collect()
}
