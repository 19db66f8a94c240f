//! The tests of the command in one binary.

mod bad_input;
mod command_line;
mod commands;
mod experiments;
mod fine_tuning;
mod from_checkpoint;
mod glue;
mod lengths;
mod llama;
mod masked;
mod phases;
mod recording;
mod resume;
mod resume_refused;
mod saving;
mod support;
mod tagged;
