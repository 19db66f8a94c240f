//! Any text is refused or parses to a well-formed graph, which prints as a text of the same graph.
#![no_main]

use lessen_graph::{Registry, parse, print, verify};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let registry = Registry::standard();
    if let Ok(graph) = parse(text, &registry) {
        verify(&graph).unwrap_or_else(|e| panic!("{e} in the graph of:\n{text}"));
        let printed = print(&graph);
        let again = parse(&printed, &registry).unwrap_or_else(|e| panic!("{e} in the printed graph:\n{printed}"));
        assert_eq!(print(&again), printed);
    }
});
