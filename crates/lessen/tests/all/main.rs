//! The tests of the command in one binary.

mod bad_input;
mod command_line;
mod commands;
mod examples;
mod experiments;
mod from_checkpoint;
mod glue;
mod lengths;
mod phases;
mod recording;
mod report;
mod resume;
mod resume_refused;
mod support;
