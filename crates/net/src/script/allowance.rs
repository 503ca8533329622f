//! What a run of a script may still do, and errors that name the place in the script.

use mlua::Lua;
use std::cell::Cell;

/// What one run of a script may still do.
#[derive(Debug)]
pub(crate) struct Allowance {
    pub(super) max: u64,
    pub(super) used: Cell<u64>,
    pub(super) is_over: Cell<bool>,
    pub(super) is_blocked: Cell<bool>,
}

impl Allowance {
    /// A fresh run begins.
    pub(crate) fn renew(&self) {
        self.used.set(0);
        self.is_over.set(false);
        self.is_blocked.set(false);
    }

    /// Charges `n` instructions; an error when the allowance is used up.
    pub(crate) fn charge(&self, n: u64) -> mlua::Result<()> {
        let used = self.used.get().saturating_add(n);
        self.used.set(used);
        if used > self.max {
            self.is_over.set(true);
        }
        self.check()
    }

    /// An error when the budget was used up before.
    pub(crate) fn check(&self) -> mlua::Result<()> {
        if self.is_over.get() {
            Err(mlua::Error::RuntimeError("instruction limit exceeded".into()))
        } else {
            Ok(())
        }
    }
}

/// An error with the place of the script that called.
pub(crate) fn error_at(lua: &Lua, text: &str) -> mlua::Error {
    let place = lua.inspect_stack(1, |d| {
        let line = d.current_line()?;
        let source = d.source().short_src?.into_owned();
        Some(format!("{source}:{line}: "))
    });
    mlua::Error::RuntimeError(format!("{}{text}", place.flatten().unwrap_or_default()))
}
