//! Tests of models of hardware: the published results of BitFusion, mappings of groups, other models, bad input.

mod files;
mod graphs;
mod groups;
mod models;
mod networks;
mod oracle;
mod search;
