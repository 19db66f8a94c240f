//! `lessen completions`

use clap::{Args, Command};
use clap_complete::Shell;
use clap_complete::env::Shells;
use lessen_base::{Error, Result};

/// The environment variable by which a shell asks the command what it offers.
pub const ASKED: &str = "LESSEN_COMPLETE";

/// Flags of `lessen completions`.
#[derive(Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    /// Prints the script that makes a shell complete the command by asking it; the exit code.
    pub fn run(self, command: &Command) -> Result<u8> {
        let (name, shell, mut script) = (command.get_name(), self.shell.to_string(), Vec::new());
        let shells = Shells::builtins();
        let registered = shells
            .completer(&shell)
            .ok_or_else(|| Error::internal(format!("there are no completions for {shell}")))?
            .write_registration(ASKED, name, name, name, &mut script);
        registered.map_err(|error| Error::internal(format!("the script cannot be made ({error})")))?;
        crate::say(&String::from_utf8_lossy(&script))?;
        Ok(0)
    }
}
