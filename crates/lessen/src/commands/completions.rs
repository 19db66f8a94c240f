//! `lessen completions`

use clap::{Args, Command};
use clap_complete::{Shell, generate};
use lessen_run::Result;

/// Flags of `lessen completions`.
#[derive(Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    /// Prints the script that makes a shell complete the command; the exit code.
    pub fn run(self, mut command: Command) -> Result<u8> {
        let mut script = Vec::new();
        let name = command.get_name().to_string();
        generate(self.shell, &mut command, name, &mut script);
        crate::say(&String::from_utf8_lossy(&script))?;
        Ok(0)
    }
}
