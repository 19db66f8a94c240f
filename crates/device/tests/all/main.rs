//! Tests of what devices have in common.

mod random_inputs;
mod reference;
mod wrong_device;
