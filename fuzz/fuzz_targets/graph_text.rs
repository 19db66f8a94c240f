//! Any text is refused or parses to a graph whose printed form parses to the same graph.
#![no_main]

use lessen_graph::{Registry, parse, print};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let registry = Registry::standard();
    if let Ok(graph) = parse(text, &registry) {
        let printed = print(&graph);
        let again = parse(&printed, &registry).unwrap_or_else(|e| panic!("{e} in the printed graph:\n{printed}"));
        assert_eq!(print(&again), printed);
    }
});
