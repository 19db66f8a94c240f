//! Tests of models of hardware: the published results of BitFusion, mappings of groups, other models, bad input;
//! and of units in Verilog.

mod files;
mod graphs;
mod groups;
mod models;
mod networks;
mod oracle;
mod rtl;
mod search;
