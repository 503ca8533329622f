//! `lua` and the script of `luaxform`.

use super::{Setup, Value, app, sticky};
use crate::compiler::Compiler;
use crate::content::BufferCondition;
use crate::diagnostic::{Checked, Refusal};
use crate::draft::{Draft, DraftTx, DraftTxTest, List};
use crate::options::ScriptNeeds;
use crate::packet::PacketCondition;
use crate::ruleset::ScriptRef;
use crate::signature::BufferRef;
use gabion_record::Direction;
use gabion_record::applayer::Hook;

/// Keywords of this file.
pub(super) const KEYWORDS: &[(&str, Setup)] = &[("lua", lua)];

const WHO: &str = "detect-lua";

/// The number of a script, checked once.
pub(super) fn script(
    c: &mut Compiler<'_>,
    d: &mut Draft<'_>,
    name: &str,
    is_transform: bool,
) -> Checked<u32> {
    let who = if is_transform { "detect-transform-luaxform" } else { WHO };
    if !c.options.allow_lua {
        let said = "Lua rules disabled by security configuration: security.lua.allow-rules";
        return Err(Refusal::new(who, said));
    }
    let path = c.path_of(name);
    let known = c.set.scripts.iter().position(|s| s.path == path && s.is_transform == is_transform);
    if let Some(at) = known {
        return Ok(u32::try_from(at).unwrap_or(u32::MAX));
    }
    let needs = match c.options.inspect_script {
        Some(inspect) => Some(inspect(&path, is_transform).map_err(|e| Refusal::new(who, e))?),
        None => {
            d.inert.get_or_insert(if is_transform { "luaxform" } else { "lua" });
            None
        }
    };
    c.set.scripts.push(ScriptRef { path, is_transform, needs });
    Ok(u32::try_from(c.set.scripts.len() - 1).unwrap_or(u32::MAX))
}

fn lua(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let (negated, name) = match v.text.strip_prefix('!') {
        Some(rest) => (true, rest.trim()),
        None => (v.negated, v.text),
    };
    let script = script(c, d, name, false)?;
    if matches!(d.list, List::Buffer(_)) {
        return d.push(BufferCondition::Lua { script, negated });
    }
    let needs = c.set.scripts.get(script as usize).and_then(|s| s.needs.clone());
    match needs {
        None => {
            d.inert.get_or_insert("lua");
            Ok(())
        }
        Some(ScriptNeeds::Packet) => {
            d.push_packet("lua", PacketCondition::Lua { script, negated });
            Ok(())
        }
        Some(ScriptNeeds::Payload) => {
            let at = d.payload();
            let before = std::mem::replace(&mut d.list, List::Buffer(at));
            let pushed = d.push(BufferCondition::Lua { script, negated });
            d.list = before;
            pushed
        }
        Some(ScriptNeeds::Buffer(keyword)) => in_buffer(c, d, &keyword, script, negated),
        Some(ScriptNeeds::Transaction(proto, direction)) => {
            let Some(id) = c.catalog.proto(&proto) else {
                d.inert.get_or_insert("lua");
                return Ok(());
            };
            app::restrict(c, d, &[id])?;
            let last = |d: Direction| c.catalog.table(id).map_or(1, |t| t.last_state(d));
            let hooks = Direction::BOTH
                .iter()
                .filter(|x| direction.is_none_or(|wanted| wanted == **x))
                .map(|x| (id, Hook::new("", *x, last(*x), 0)))
                .collect();
            d.tx.push(DraftTx {
                keyword: "lua",
                test: DraftTxTest::Lua { script, negated },
                hooks,
            });
            Ok(())
        }
    }
}

fn in_buffer(
    c: &mut Compiler<'_>,
    d: &mut Draft<'_>,
    keyword: &str,
    script: u32,
    negated: bool,
) -> Checked<()> {
    let before = d.list;
    match c.catalog.buffer_by_keyword(keyword) {
        Some(id) => {
            let protos: Vec<_> = c
                .catalog
                .buffer(id)
                .map(|b| b.hooks.iter().map(|(p, _)| *p).collect())
                .unwrap_or_default();
            app::restrict(c, d, &protos)?;
            let at = d.buffer_index(BufferRef::App(id), false);
            d.list = List::Buffer(at);
        }
        None => {
            d.inert.get_or_insert("lua");
            sticky::inert_buffer(d, false);
        }
    }
    let pushed = d.push(BufferCondition::Lua { script, negated });
    d.list = before;
    pushed
}
