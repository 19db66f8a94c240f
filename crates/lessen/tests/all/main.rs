//! The tests of the command in one binary.

mod bad_input;
mod command_line;
mod commands;
mod data;
mod examples;
mod experiments;
mod fine_tuning;
mod from_checkpoint;
mod generate;
mod glue;
mod install;
mod lengths;
mod llama;
mod masked;
mod memory;
mod phases;
mod predict;
mod recording;
mod report;
mod resume;
mod resume_refused;
mod saved_models;
mod saving;
mod support;
mod tagged;
mod tuning_in_phases;
