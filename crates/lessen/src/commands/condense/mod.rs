//! `lessen condense`

mod make;

use clap::Args;
use lessen_run::Result;

/// Flags of `lessen condense`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Condense {
    #[command(flatten)]
    make: make::Make,
}

impl Condense {
    /// Condenses; the exit code.
    pub fn run(self) -> Result<u8> {
        self.make.run()
    }
}
