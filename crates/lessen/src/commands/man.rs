//! `lessen man`

use clap::{Args, Command};
use clap_mangen::Man as Page;
use lessen_base::atomic::write_file;
use lessen_base::{Error, Result};
use std::path::{Path, PathBuf};

/// Flags of `lessen man`.
#[derive(Args)]
pub struct Man {
    /// Folder for the pages of all commands, such as ~/.local/share/man/man1, instead of the first page on stdout
    dir: Option<PathBuf>,
}

impl Man {
    /// Prints or writes the pages; the exit code.
    pub fn run(self, mut command: Command) -> Result<u8> {
        command.build();
        match &self.dir {
            None => crate::say(&String::from_utf8_lossy(&page(&command)?))?,
            Some(dir) => {
                std::fs::create_dir_all(dir).map_err(|error| {
                    let shown = dir.display();
                    Error::user(format!(
                        "the folder {shown} cannot be made ({error}); choose a writable place"
                    ))
                })?;
                write_pages(&command, dir)?;
            }
        }
        Ok(0)
    }
}

/// Writes the page of a command and the pages of the commands below it.
fn write_pages(command: &Command, dir: &Path) -> Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    write_file(&dir.join(format!("{name}.1")), &page(command)?)?;
    let mut below = command.get_subcommands().filter(|below| below.get_name() != "help");
    below.try_for_each(|below| write_pages(below, dir))
}

fn page(command: &Command) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let rendered = Page::new(command.clone()).render(&mut text);
    rendered.map_err(|error| Error::internal(format!("a manual page cannot be made ({error})")))?;
    Ok(text)
}
