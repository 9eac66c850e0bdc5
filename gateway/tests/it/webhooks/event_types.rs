//! The types of events.
use gpuaas_gateway::webhooks::events::EVENT_TYPES;

/// The command line takes the types that the API takes, and names them.
#[test]
fn the_command_line_names_every_event_type() {
    let command = gpuaas_cli::command();
    let of_webhooks = command.find_subcommand("webhook").expect("webhook");
    for verb in ["create", "update"] {
        let verb = of_webhooks.find_subcommand(verb).expect("a verb");
        let mut all = verb.get_arguments();
        let events = all.find(|one| one.get_id() == "events").expect("--event");
        let named = events.get_possible_values();
        let named: Vec<&str> = named
            .iter()
            .map(clap::builder::PossibleValue::get_name)
            .collect();
        let known = EVENT_TYPES.iter().map(|known| known.name);
        let known: Vec<&str> = std::iter::once("*").chain(known).collect();
        assert_eq!(named, known);
    }
}
