//! `gabion rules cost`: captures read with every inspection timed, and where the time went.

use super::with_falco_rules::{self, is_falco_rules};
use super::with_rules::{self, EngineUse};
use crate::command_line::CostOptions;
use crate::exit::{Exit, Fault};
use crate::{configuration, input_opener, standard_error, standard_output, terminal};
use gabion_outputs::Outputs;
use gabion_record::json::Json;
use gabion_reports::{
    LoadDetail, rule_cost_table, syscall_cost_json, syscall_cost_table, write_rule_costs_json,
};
use gabion_runtime::StopFlag;
use gabion_sensor::packets::{Input, PacketRun};

/// Runs the verb.
pub(crate) fn run(o: &CostOptions) -> Result<Exit, Fault> {
    if o.engine.rules.is_empty() {
        return Err(Fault::usage("rules cost: no rules: name a rule file with -S"));
    }
    if o.engine.rules.iter().all(|path| is_falco_rules(path)) {
        return of_system_calls(o);
    }
    let config = configuration::load(o.engine.config.as_deref(), &o.engine.sets)?;
    let mut outputs = Outputs::counting(&config);
    let for_use = EngineUse {
        wants: outputs.wants(),
        detail: LoadDetail::Counts,
        profile: Some(!o.sampled),
        log_dir: None,
    };
    let running = with_rules::engine(&o.engine, &config, for_use)?;
    let budget = gabion_runtime::memory::process_budget(None);
    let stop = StopFlag::new();
    let engine = running.now();
    let run = PacketRun::new(&running, &budget, &stop, input_opener());
    let inputs = Input::list(&o.captures)?;
    let done = run
        .read_inputs(&inputs, &mut outputs, &mut standard_error::Incidents::default())
        .map_err(|e| Fault::environment(format!("threads: {e}: end other programs")))?;
    let mut exit = Exit::Done;
    for input in done.inputs.iter().filter(|i| i.is_named) {
        if let Some(e) = &input.error {
            let path = input.path.display();
            eprintln!("{}", Fault::input(format!("{path}: {e}: name a pcap or pcapng file")));
            exit = Exit::Input;
        }
    }
    if o.json {
        let mut j = Json::new();
        j.open();
        j.number("packets", done.counters.packets);
        write_rule_costs_json(&done.costs, &engine, usize::MAX, &mut j);
        j.close();
        standard_output::text(format!("{}\n", String::from_utf8_lossy(j.bytes())));
    } else {
        standard_output::text(rule_cost_table(&done.costs, &engine, o.rows, terminal::width()));
    }
    Ok(exit)
}

/// The same for Falco's rules and captures of system calls.
fn of_system_calls(o: &CostOptions) -> Result<Exit, Fault> {
    if o.sampled {
        let what = "has no effect on rules of Falco: each trial is timed: leave it out";
        return Err(Fault::usage(format!("--sampled: {what}")));
    }
    let loaded = with_falco_rules::load(&o.engine.rules, false)?;
    let stop = StopFlag::new();
    let (costs, events) =
        gabion_sensor::falco::cost_of_rules(&loaded.rules, &o.captures, &input_opener(), &stop)?;
    let table = |width| syscall_cost_table(&costs, o.rows, width);
    standard_output::report(o.json, || syscall_cost_json(&costs, events), table);
    Ok(Exit::Done)
}
