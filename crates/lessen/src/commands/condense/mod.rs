//! `lessen condense`

mod eval;
mod make;

use clap::{Args, Subcommand};
use lessen_base::Result;

/// Flags of `lessen condense`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Condense {
    #[command(subcommand)]
    task: Option<Task>,
    #[command(flatten)]
    make: make::Make,
}

/// What is done with condensed images.
#[derive(Subcommand)]
enum Task {
    /// Train networks on condensed images from scratch and test them
    Eval(eval::Eval),
}

impl Condense {
    /// Condenses or evaluates; the exit code.
    pub fn run(self) -> Result<u8> {
        match self.task {
            Some(Task::Eval(eval)) => eval.run(),
            None => self.make.run(),
        }
    }
}
