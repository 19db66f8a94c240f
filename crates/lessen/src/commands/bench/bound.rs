//! `lessen bench bound`

use clap::Args;
use lessen::bench::bound;
use lessen_base::Result;

use crate::say;

/// Flags of `lessen bench bound`.
#[derive(Args)]
pub struct Bound {
    /// Number of networks, of the seeds from 0 on
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    networks: u64,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Bound {
    /// Plans; the exit code.
    pub fn run(self) -> Result<u8> {
        let (found, json) = bound::run(self.networks)?;
        let lines = found.iter().map(bound::Shares::to_text).collect::<String>();
        say(&if self.json {
            format!("{json}\n")
        } else {
            bound::heads() + &lines
        })?;
        Ok(0)
    }
}
