//! Members of JSON objects that the reports of several engines have: limits that were reached, memory, ledgers.

use gabion_record::budget::BudgetReport;
use gabion_record::json::Json;
use gabion_record::ledger::StageLedgers;
use gabion_record::limits::Reached;

/// The fixed limits that were reached, with what was shed.
pub(crate) fn json_limits(limits: &Reached, j: &mut Json) {
    j.open_array_key("limits");
    for (limit, times) in limits.iter() {
        j.open();
        j.field("limit", limit.full_name());
        j.number("value", limit.value);
        j.number("times", times);
        j.field("meaning", limit.meaning.text());
        j.close();
    }
    j.close_array();
}

/// What the process had in memory at most, and what it might have.
pub(crate) fn json_memory(j: &mut Json) {
    j.open_key("memory");
    if let Some(peak) = gabion_runtime::memory::resident_peak() {
        j.number("resident_peak", peak);
    }
    j.number("limit", gabion_runtime::memory::MemoryState::current().limit);
    j.close();
}

/// Budgets and those below them, each by its path.
pub(crate) fn json_budgets<'a>(budgets: impl Iterator<Item = &'a BudgetReport>, j: &mut Json) {
    j.open_array_key("budgets");
    budgets.for_each(|budget| json_budget(budget, "", j));
    j.close_array();
}

fn json_budget(b: &BudgetReport, above: &str, j: &mut Json) {
    let path = if above.is_empty() { b.name.clone() } else { format!("{above}/{}", b.name) };
    j.open();
    j.field("budget", &path);
    j.number("limit", b.limit);
    j.number("used", b.used);
    j.number("peak", b.peak);
    j.number("refused", b.refused);
    j.close();
    b.children.iter().for_each(|c| json_budget(c, &path, j));
}

/// The ledger of each stage.
pub(crate) fn json_ledger(ledgers: &StageLedgers, j: &mut Json) {
    j.open_array_key("ledger");
    for stage in ledgers.by_stage() {
        j.open();
        j.field("stage", &stage.stage);
        let mut fields = Vec::new();
        stage.ledger.write_json_fields(&mut fields);
        j.members(&fields);
        j.close();
    }
    j.close_array();
}
