//! The `lessen` command.
#![forbid(unsafe_code)]

mod commands;

use clap::{CommandFactory, Parser};
use commands::Command;
use lessen_cpu::CountingAllocator;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// Counts what is allocated, for the reports of runs.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Trains and runs neural networks with less: less memory, less time, the same answer.
#[derive(Parser)]
#[command(name = "lessen", version, arg_required_else_help = true)]
struct Cli {
    /// Show no progress; warnings and errors stay
    #[arg(long, short, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.quiet {
        lessen_run::console::be_quiet();
    }
    match catch_unwind(AssertUnwindSafe(|| cli.command.run(Cli::command()))) {
        Ok(Ok(code)) => ExitCode::from(code),
        Ok(Err(error)) => {
            tell(&format!("error: {error}"));
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
        }
        Err(_) => {
            tell("error: this is a bug in Lessen; please report it with the lines above");
            ExitCode::from(1)
        }
    }
}

/// Prints a result on stdout. A closed pipe, as in `lessen recipes | head -1`, is no error.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints a line on stderr. A closed pipe is no error.
fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
