//! Tests of models of hardware: the published results of BitFusion, mappings of groups, other models, bad input.

mod oracle;
