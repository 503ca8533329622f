//! Conditions as a graph: equal parts of all conditions are one node, which is evaluated once for each event.

use super::error::{CompileError, Fault};
use super::fields::OwnedArgument;
use super::test::{Check, Space};
use super::types::TypeSet;
use crate::lang::{self, Expr, ParseError, Right};
use crate::limits::{EXPANDED_DEPTH_MAX, PROGRAM_NODES_MAX};
use gabion_record::fields::{FieldId, Fields};
use std::collections::HashMap;
use thiserror::Error;

/// A part of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId(u32);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Node {
    And(Box<[NodeId]>),
    Or(Box<[NodeId]>),
    Not(NodeId),
    Check(u32),
}

/// Compiled conditions. It is read-only and can be shared.
#[derive(Debug, Default)]
pub struct Program {
    nodes: Vec<Node>,
    checks: Vec<Check>,
}

/// Puts conditions into one program.
#[derive(Debug, Default)]
pub struct Builder {
    program: Program,
    by_node: HashMap<Node, NodeId>,
    by_text: HashMap<String, NodeId>,
    /// For each node the types of events for which it can be true, and those for which it can be false.
    types: Vec<(TypeSet, TypeSet)>,
}

impl Builder {
    /// An empty program.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Adds a condition whose macros are expanded.
    ///
    /// # Errors
    /// The first part that can't be compiled.
    pub fn add(&mut self, expr: &Expr) -> Result<NodeId, CompileError> {
        self.add_at(expr, 0)
    }

    /// The types of events that can satisfy the condition.
    pub fn types(&self, node: NodeId) -> TypeSet {
        self.types.get(node.0 as usize).map_or(TypeSet::NONE, |(may_hold, _)| *may_hold)
    }

    /// The program with all conditions. Fields that several comparisons ask for get a place for their value.
    pub fn finish(self) -> Program {
        let mut program = self.program;
        let mut users: HashMap<(FieldId, OwnedArgument), (usize, Option<u32>)> = HashMap::new();
        for (field, argument) in program.checks.iter().filter_map(Check::field) {
            users.entry((field, argument.clone())).or_default().0 += 1;
        }
        let mut places = 0;
        for check in &mut program.checks {
            let Some((field, argument)) = check.field() else { continue };
            let Some((count, place)) = users.get_mut(&(field, argument.clone())) else { continue };
            if *count > 1 && place.is_none() {
                *place = Some(places);
                places += 1;
            }
            check.share(*place);
        }
        program
    }

    fn add_at(&mut self, expr: &Expr, depth: usize) -> Result<NodeId, CompileError> {
        let position = position_of(expr);
        if depth > EXPANDED_DEPTH_MAX {
            return Err(Fault::TooDeep(EXPANDED_DEPTH_MAX).at(position));
        }
        match expr {
            Expr::And(parts) => self.add_group(parts, depth, true),
            Expr::Or(parts) => self.add_group(parts, depth, false),
            Expr::Not(inner) => {
                let inner = self.add_at(inner, depth + 1)?;
                let (may_hold, may_fail) = self.both(inner);
                self.node(Node::Not(inner), (may_fail, may_hold), position)
            }
            Expr::Exists(operand, _) => self.check(expr, position, || Check::exists(operand)),
            Expr::Compare { left, op, quantifier, right, .. } => {
                self.check(expr, position, || Check::new(left, *op, *quantifier, right))
            }
            Expr::Macro(name, _) => Err(Fault::NoMacro(name.clone()).at(position)),
            Expr::Expanded(_, inner) => self.add_at(inner, depth + 1),
        }
    }

    fn add_group(
        &mut self,
        parts: &[Expr],
        depth: usize,
        is_and: bool,
    ) -> Result<NodeId, CompileError> {
        let mut ids = Vec::with_capacity(parts.len());
        let (mut hold, mut fail) =
            if is_and { (TypeSet::all(), TypeSet::NONE) } else { (TypeSet::NONE, TypeSet::all()) };
        for part in parts {
            let id = self.add_at(part, depth + 1)?;
            let (may_hold, may_fail) = self.both(id);
            if is_and {
                (hold, fail) = (hold.intersection(may_hold), fail.union(may_fail));
            } else {
                (hold, fail) = (hold.union(may_hold), fail.intersection(may_fail));
            }
            ids.push(id);
        }
        let position = parts.first().map(position_of).unwrap_or_default();
        let node = if is_and { Node::And(ids.into()) } else { Node::Or(ids.into()) };
        self.node(node, (hold, fail), position)
    }

    fn both(&self, node: NodeId) -> (TypeSet, TypeSet) {
        self.types.get(node.0 as usize).copied().unwrap_or((TypeSet::NONE, TypeSet::NONE))
    }

    fn check(
        &mut self,
        expr: &Expr,
        position: lang::Position,
        make: impl FnOnce() -> Result<Check, CompileError>,
    ) -> Result<NodeId, CompileError> {
        // The text of a comparison is the same exactly if it compares the same, but for values without quotes, whose
        // lengths separate an empty value from none.
        let mut text = lang::text_of(expr, usize::MAX).unwrap_or_default();
        if let Expr::Compare { right: Right::List(values), .. } = expr {
            values.iter().for_each(|value| text.push_str(&format!(" {}", value.len())));
        }
        if let Some(id) = self.by_text.get(&text) {
            return Ok(*id);
        }
        let check = make()?;
        let types = check.types();
        let number = self.program.checks.len() as u32;
        self.program.checks.push(check);
        let id = self.node(Node::Check(number), types, position)?;
        self.by_text.insert(text, id);
        Ok(id)
    }

    fn node(
        &mut self,
        node: Node,
        types: (TypeSet, TypeSet),
        position: lang::Position,
    ) -> Result<NodeId, CompileError> {
        if let Some(id) = self.by_node.get(&node) {
            return Ok(*id);
        }
        if self.program.nodes.len() >= PROGRAM_NODES_MAX {
            return Err(Fault::TooLarge(PROGRAM_NODES_MAX).at(position));
        }
        let id = NodeId(self.program.nodes.len() as u32);
        self.program.nodes.push(node.clone());
        self.types.push(types);
        self.by_node.insert(node, id);
        Ok(id)
    }
}

fn position_of(expr: &Expr) -> lang::Position {
    match expr {
        Expr::And(parts) | Expr::Or(parts) => parts.first().map(position_of).unwrap_or_default(),
        Expr::Not(inner) => position_of(inner),
        Expr::Exists(_, position) | Expr::Compare { position, .. } | Expr::Macro(_, position) => {
            *position
        }
        // Positions inside of a macro are those of its own text.
        Expr::Expanded(..) => lang::Position::default(),
    }
}

/// What one thread remembers of the event that it evaluates.
#[derive(Debug)]
pub struct Evaluator {
    /// For each node the number of the event for which it was evaluated, times two, plus the result.
    results: Vec<u64>,
    event: u64,
    space: Space,
    evaluated: u64,
}

impl Evaluator {
    /// For a program; one evaluator serves one program.
    pub fn new(program: &Program) -> Evaluator {
        let results = vec![0; program.nodes.len()];
        let mut evaluator = Evaluator { results, event: 0, space: Space::default(), evaluated: 0 };
        evaluator.begin_event();
        evaluator
    }

    /// Forgets the results of the last event.
    pub fn begin_event(&mut self) {
        self.event += 1;
        self.space.shared.begin_event(self.event);
    }

    /// Comparisons made so far: equal ones of several rules count once for an event.
    pub fn comparisons(&self) -> u64 {
        self.evaluated
    }

    /// Whether the condition holds for the event.
    pub fn holds(&mut self, program: &Program, node: NodeId, fields: &dyn Fields) -> bool {
        let index = node.0 as usize;
        let known = self.results.get(index).copied().unwrap_or(0);
        if known >> 1 == self.event {
            return known & 1 == 1;
        }
        let holds = match program.nodes.get(index) {
            Some(Node::And(parts)) => parts.iter().all(|part| self.holds(program, *part, fields)),
            Some(Node::Or(parts)) => parts.iter().any(|part| self.holds(program, *part, fields)),
            Some(Node::Not(inner)) => !self.holds(program, *inner, fields),
            Some(Node::Check(check)) => {
                self.evaluated += 1;
                let check = program.checks.get(*check as usize);
                check.is_some_and(|check| check.holds(fields, &mut self.space))
            }
            None => false,
        };
        if let Some(result) = self.results.get_mut(index) {
            *result = self.event << 1 | u64::from(holds);
        }
        holds
    }
}

/// Why a filter can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilterError {
    /// It does not parse.
    #[error("{0}")]
    Parse(ParseError),
    /// It can't be compiled.
    #[error("{0}")]
    Compile(CompileError),
}

/// One condition alone, without macros and lists: what sysdig calls a filter.
#[derive(Debug)]
pub struct Filter {
    program: Program,
    node: NodeId,
    types: TypeSet,
    evaluator: Evaluator,
}

impl Filter {
    /// Compiles a filter.
    ///
    /// # Errors
    /// It is not of the language, or it names what does not exist.
    pub fn new(text: &str) -> Result<Filter, FilterError> {
        let expr = lang::parse(text).map_err(FilterError::Parse)?;
        let mut builder = Builder::new();
        let node = builder.add(&expr).map_err(FilterError::Compile)?;
        let types = builder.types(node);
        let program = builder.finish();
        let evaluator = Evaluator::new(&program);
        Ok(Filter { program, node, types, evaluator })
    }

    /// The types of events that can match.
    pub fn types(&self) -> &TypeSet {
        &self.types
    }

    /// Whether the event matches.
    pub fn matches(&mut self, fields: &dyn Fields) -> bool {
        if !self.types.contains(fields.event_type()) {
            return false;
        }
        self.evaluator.begin_event();
        self.evaluator.holds(&self.program, self.node, fields)
    }
}
