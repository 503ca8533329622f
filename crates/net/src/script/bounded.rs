//! Bounded versions of functions in Lua's libraries that could do endless work in one instruction.
//!
//! The instruction count sees neither loops inside functions written in C nor the backtracking of
//! pattern matching. `string.rep` of an empty text and `table.move` over a huge range are cut short
//! by charging them, `find`, `match`, `gmatch` and `gsub` are those of [`super::pattern`], which
//! charges each step.

use super::allowance::Allowance;
use super::pattern::{Found, Matcher, Span};
use mlua::{Function, Lua, LuaString, MultiValue, Table, Value};
use std::rc::Rc;

/// Items of `table.move` and repetitions of `string.rep` per instruction charged.
const ITEMS_PER_INSTRUCTION: u64 = 8;

fn allowance(lua: &Lua) -> mlua::Result<Rc<Allowance>> {
    let a = lua.app_data_ref::<Rc<Allowance>>();
    a.map(|a| Rc::clone(&a)).ok_or_else(|| mlua::Error::RuntimeError("no allowance".into()))
}

/// Installs them in the state's libraries.
pub(super) fn install(lua: &Lua, has_metatables: bool) -> mlua::Result<()> {
    let string: Table = lua.globals().get("string")?;
    let rep: Function = string.get("rep")?;
    string.set(
        "rep",
        lua.create_function(move |lua, args: MultiValue| {
            let n = args.get(1).and_then(Value::as_integer).unwrap_or(0).max(0);
            allowance(lua)?.charge(n.unsigned_abs() / ITEMS_PER_INSTRUCTION)?;
            rep.call::<LuaString>(args)
        })?,
    )?;
    string.set("find", lua.create_function(|lua, args: MultiValue| find(lua, &args, true))?)?;
    string.set("match", lua.create_function(|lua, args: MultiValue| find(lua, &args, false))?)?;
    string.set("gmatch", lua.create_function(|lua, args: MultiValue| gmatch(lua, &args))?)?;
    string.set("gsub", lua.create_function(|lua, args: MultiValue| gsub(lua, &args))?)?;
    let table: Table = lua.globals().get("table")?;
    let shift: Function = table.get("move")?;
    table.set(
        "move",
        lua.create_function(move |lua, args: MultiValue| {
            let at = |i: usize| args.get(i).and_then(Value::as_integer).unwrap_or(0);
            let items = i128::from(at(2)) - i128::from(at(1)) + 1;
            let items = u64::try_from(items.max(0)).unwrap_or(u64::MAX);
            allowance(lua)?.charge(items / ITEMS_PER_INSTRUCTION)?;
            shift.call::<MultiValue>(args)
        })?,
    )?;
    if has_metatables {
        for name in ["sort", "insert", "remove", "concat", "unpack"] {
            refuse_lengths(lua, &table, name)?;
        }
    }
    Ok(())
}

/// A table may report a greater length than it has: such a table is refused.
fn refuse_lengths(lua: &Lua, table: &Table, name: &'static str) -> mlua::Result<()> {
    let original: Function = table.get(name)?;
    let bounded = lua.create_function(move |lua, args: MultiValue| {
        if let Some(Value::Table(t)) = args.front()
            && let Some(meta) = t.metatable()
            && !meta.raw_get::<Value>("__len")?.is_nil()
        {
            let said = format!("'{name}' does not take a table with __len");
            return Err(super::allowance::error_at(lua, &said));
        }
        original.call::<MultiValue>(args)
    })?;
    table.set(name, bounded)
}

fn text(lua: &Lua, args: &MultiValue, at: usize, who: &str) -> mlua::Result<LuaString> {
    let v = args.get(at).cloned().unwrap_or(Value::Nil);
    match &v {
        Value::String(s) => Ok(s.clone()),
        Value::Integer(_) | Value::Number(_) => {
            lua.coerce_string(v)?.ok_or_else(|| bad(lua, at, who, "string expected"))
        }
        other => {
            let got = if at < args.len() { other.type_name() } else { "no value" };
            Err(bad(lua, at, who, &format!("string expected, got {got}")))
        }
    }
}

fn bad(lua: &Lua, at: usize, who: &str, what: &str) -> mlua::Error {
    super::allowance::error_at(lua, &format!("bad argument #{} to '{who}' ({what})", at + 1))
}

/// Where to begin: the position of an argument, counted from the end when negative.
fn start(args: &MultiValue, at: usize, len: usize) -> usize {
    let init = match args.get(at) {
        Some(Value::Integer(i)) => *i,
        Some(Value::Number(n)) => *n as i64,
        _ => 1,
    };
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let zero_based = match init {
        i if i > 0 => i - 1,
        0 => 0,
        i => (len + i).max(0),
    };
    usize::try_from(zero_based).unwrap_or(usize::MAX)
}

fn captured(lua: &Lua, hay: &[u8], span: Span) -> mlua::Result<Value> {
    Ok(match span {
        Span::Text(a, b) => Value::String(lua.create_string(hay.get(a..b).unwrap_or_default())?),
        Span::Position(p) => Value::Integer(i64::try_from(p + 1).unwrap_or(i64::MAX)),
        Span::Unfinished => return Err(super::allowance::error_at(lua, "unfinished capture")),
    })
}

/// All captures; the whole match when there are none.
fn captures(lua: &Lua, hay: &[u8], found: &Found, whole: bool) -> mlua::Result<Vec<Value>> {
    if found.captures.is_empty() && whole {
        return Ok(vec![captured(lua, hay, Span::Text(found.start, found.end))?]);
    }
    found.captures.iter().map(|c| captured(lua, hay, *c)).collect()
}

fn has_specials(pattern: &[u8]) -> bool {
    pattern.iter().any(|b| b"^$*+?.([%-".contains(b))
}

fn find(lua: &Lua, args: &MultiValue, is_find: bool) -> mlua::Result<MultiValue> {
    let who = if is_find { "find" } else { "match" };
    let (hay, pattern) = (text(lua, args, 0, who)?, text(lua, args, 1, who)?);
    let (hay, pattern) = (hay.as_bytes(), pattern.as_bytes());
    let (hay, pattern): (&[u8], &[u8]) = (&hay, &pattern);
    let from = start(args, 2, hay.len());
    let none = || Ok(MultiValue::from_vec(vec![Value::Nil]));
    if from > hay.len() {
        return none();
    }
    let index = |i: usize| Value::Integer(i64::try_from(i).unwrap_or(i64::MAX));
    let is_plain = args.get(3).is_some_and(|v| !matches!(v, Value::Nil | Value::Boolean(false)));
    if is_find && (is_plain || !has_specials(pattern)) {
        let rest = hay.get(from..).unwrap_or_default();
        return match memchr::memmem::find(rest, pattern) {
            Some(at) => {
                let at = from + at;
                Ok(MultiValue::from_vec(vec![index(at + 1), index(at + pattern.len())]))
            }
            None => none(),
        };
    }
    let allowance = allowance(lua)?;
    let mut m = Matcher::new(hay, pattern, &allowance);
    match m.find(from).map_err(|e| e.at(lua))? {
        None => none(),
        Some(found) => {
            let mut out = Vec::new();
            if is_find {
                out.extend([index(found.start + 1), index(found.end)]);
            }
            out.extend(captures(lua, hay, &found, !is_find)?);
            Ok(MultiValue::from_vec(out))
        }
    }
}

fn gmatch(lua: &Lua, args: &MultiValue) -> mlua::Result<Function> {
    let (hay, pattern) = (text(lua, args, 0, "gmatch")?, text(lua, args, 1, "gmatch")?);
    let mut at = start(args, 2, hay.as_bytes().len());
    let mut last = None;
    lua.create_function_mut(move |lua, ()| {
        let (hay, pattern) = (hay.as_bytes(), pattern.as_bytes());
        let allowance = allowance(lua)?;
        let mut m = Matcher::unanchored(&hay, &pattern, &allowance);
        while at <= hay.len() {
            let Some(found) = m.find(at).map_err(|e| e.at(lua))? else { break };
            if last == Some(found.end) {
                // An empty match right behind the last one is none.
                at = found.start + 1;
                continue;
            }
            (at, last) = (found.end, Some(found.end));
            return Ok(MultiValue::from_vec(captures(lua, &hay, &found, true)?));
        }
        at = usize::MAX;
        Ok(MultiValue::from_vec(vec![Value::Nil]))
    })
}

fn gsub(lua: &Lua, args: &MultiValue) -> mlua::Result<(LuaString, i64)> {
    let (hay, pattern) = (text(lua, args, 0, "gsub")?, text(lua, args, 1, "gsub")?);
    let with = args.get(2).cloned().unwrap_or(Value::Nil);
    let with = match with {
        Value::Integer(_) | Value::Number(_) => Value::String(text(lua, args, 2, "gsub")?),
        Value::String(_) | Value::Table(_) | Value::Function(_) => with,
        other => {
            let got = if args.len() > 2 { other.type_name() } else { "no value" };
            let what = format!("string/function/table expected, got {got}");
            return Err(bad(lua, 2, "gsub", &what));
        }
    };
    let (hay, pattern) = (hay.as_bytes(), pattern.as_bytes());
    let max = match args.get(3) {
        Some(Value::Integer(n)) => usize::try_from(*n).unwrap_or(0),
        Some(Value::Number(n)) => *n as usize,
        _ => usize::MAX,
    };
    let allowance = allowance(lua)?;
    let mut m = Matcher::new(&hay, &pattern, &allowance);
    let anchored = m.is_anchored();
    let (mut out, mut at, mut count) = (Vec::new(), 0, 0usize);
    let mut last = None;
    while count < max {
        let found = m.at(at).map_err(|e| e.at(lua))?;
        // An empty match right behind the last one is none.
        match found.filter(|f| last != Some(f.end)) {
            Some(found) => {
                count += 1;
                replace(lua, &hay, &found, &with, &mut out)?;
                (at, last) = (found.end, Some(found.end));
            }
            None => match hay.get(at) {
                Some(b) => {
                    out.push(*b);
                    at += 1;
                }
                None => break,
            },
        }
        if anchored {
            break;
        }
        // The result stays within what the state itself could hold.
        if out.len() as u64 > crate::limits::SCRIPT_RESULT_BYTES_MAX {
            return Err(mlua::Error::MemoryError("not enough memory".into()));
        }
    }
    out.extend_from_slice(hay.get(at..).unwrap_or_default());
    Ok((lua.create_string(&out)?, i64::try_from(count).unwrap_or(i64::MAX)))
}

/// Writes the replacement of a match.
fn replace(
    lua: &Lua,
    hay: &[u8],
    found: &Found,
    with: &Value,
    out: &mut Vec<u8>,
) -> mlua::Result<()> {
    let whole = hay.get(found.start..found.end).unwrap_or_default();
    let value = match with {
        Value::String(s) => return replace_text(lua, hay, found, &s.as_bytes(), out),
        Value::Table(t) => {
            let key = captures(lua, hay, found, true)?.into_iter().next().unwrap_or(Value::Nil);
            t.get::<Value>(key)?
        }
        Value::Function(f) => {
            f.call::<Value>(MultiValue::from_vec(captures(lua, hay, found, true)?))?
        }
        _ => Value::Nil,
    };
    match value {
        Value::Nil | Value::Boolean(false) => out.extend_from_slice(whole),
        v @ (Value::String(_) | Value::Integer(_) | Value::Number(_)) => {
            if let Some(s) = lua.coerce_string(v)? {
                out.extend_from_slice(&s.as_bytes());
            }
        }
        other => {
            let said = format!("invalid replacement value (a {})", other.type_name());
            return Err(super::allowance::error_at(lua, &said));
        }
    }
    Ok(())
}

/// `%0` to `%9` and `%%` in the replacement's text.
fn replace_text(
    lua: &Lua,
    hay: &[u8],
    found: &Found,
    text: &[u8],
    out: &mut Vec<u8>,
) -> mlua::Result<()> {
    let mut bytes = text.iter();
    while let Some(b) = bytes.next() {
        if *b != b'%' {
            out.push(*b);
            continue;
        }
        let span = match bytes.next() {
            Some(b'%') => {
                out.push(b'%');
                continue;
            }
            Some(b'0') => Span::Text(found.start, found.end),
            Some(b'1') if found.captures.is_empty() => Span::Text(found.start, found.end),
            Some(d @ b'1'..=b'9') => match found.captures.get(usize::from(*d - b'1')) {
                Some(c) => *c,
                None => {
                    let n = *d - b'0';
                    let said = format!("invalid capture index %{n} in replacement string");
                    return Err(super::allowance::error_at(lua, &said));
                }
            },
            _ => {
                let said = "invalid use of '%' in replacement string";
                return Err(super::allowance::error_at(lua, said));
            }
        };
        match span {
            Span::Text(a, b) => out.extend_from_slice(hay.get(a..b).unwrap_or_default()),
            Span::Position(p) => out.extend_from_slice((p + 1).to_string().as_bytes()),
            Span::Unfinished => {
                return Err(super::allowance::error_at(lua, "unfinished capture"));
            }
        }
    }
    Ok(())
}
