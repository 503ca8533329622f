//! `lua` and the script of `luaxform`.
//!
//! Without a hook or a sticky buffer a script is run on packets, after everything else of the rule;
//! with a hook it is run when the transaction reaches that state; after a sticky buffer when the
//! conditions on the buffer before it hold. It never sees the buffer itself.

use crate::compiler::Compiler;
use crate::content::BufferCondition;
use crate::diagnostic::{Checked, Refusal};
use crate::draft::{Draft, DraftTx, DraftTxTest, List};
use crate::keyword::{Setup, Value};
use crate::packet::PacketCondition;
use crate::ruleset::ScriptRef;
use crate::signature::RuleHook;
use gabion_record::applayer::Hook;

/// Keywords of this file.
pub(super) const KEYWORDS: &[(&str, Setup)] = &[("lua", lua)];

const WHO: &str = "detect-lua";

/// The number of a script, looked into. Each use of a script is one of its own.
pub(super) fn script(
    c: &mut Compiler<'_>,
    d: &mut Draft<'_>,
    name: &str,
    is_transform: bool,
) -> Checked<u32> {
    if !c.options.allow_lua {
        let said = "Lua rules disabled by security configuration: security.lua.allow-rules";
        return Err(Refusal::new(WHO, said));
    }
    let path = c.path_of(name);
    let facts = match c.options.inspect_script {
        Some(inspect) => {
            inspect(&path, is_transform).map_err(|e| Refusal::new(WHO, e.to_string()))?
        }
        None => {
            d.inert.get_or_insert(if is_transform { "luaxform" } else { "lua" });
            Default::default()
        }
    };
    let byte_variables = facts.byte_variables.iter().map(|n| byte_variable(d, n));
    let byte_variables = byte_variables.collect::<Checked<Vec<u8>>>()?;
    let flow_variables = facts.flow_variables.iter().map(|n| c.set.variables.intern(n)).collect();
    let flow_integers = facts.flow_integers.iter().map(|n| c.set.flowints.intern(n)).collect();
    c.set.scripts.push(ScriptRef {
        path,
        is_transform,
        facts,
        byte_variables,
        flow_variables,
        flow_integers,
    });
    Ok(u32::try_from(c.set.scripts.len() - 1).unwrap_or(u32::MAX))
}

fn byte_variable(d: &Draft<'_>, name: &str) -> Checked<u8> {
    d.byte_variable(name).ok_or_else(|| {
        Refusal::new(WHO, format!("Unknown byte_extract or byte_math variable: {name}"))
            .because("a variable must be defined in the rule before the script that maps it")
    })
}

fn lua(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let (negated, name) = match v.text.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (v.negated, v.text),
    };
    let script = script(c, d, name, false)?;
    if matches!(d.list, List::Buffer(_)) {
        return d.push(BufferCondition::Lua { script, negated });
    }
    match d.hook {
        Some(RuleHook::App { proto, direction, progress, .. }) => d.tx.push(DraftTx {
            keyword: "lua",
            test: DraftTxTest::Lua { script, negated },
            hooks: vec![(proto, Hook::new(direction, progress, 0))],
            after: d.buffers.len(),
        }),
        _ => d.push_packet("lua", PacketCondition::Lua { script, negated }),
    }
    Ok(())
}
