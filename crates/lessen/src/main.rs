//! The `lessen` command.
#![forbid(unsafe_code)]

mod commands;
#[cfg(test)]
mod documented;
mod stdout;
mod terminal;

use clap::{CommandFactory, Parser};
use clap_complete::env::CompleteEnv;
use commands::{Command, completions};
use lessen_base::watcher;
use lessen_cpu::CountingAllocator;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use stdout::say;
use terminal::Terminal;

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
    ALLOCATOR.hold_little();
    // Ends the process where a shell asks what may stand on the command line.
    CompleteEnv::with_factory(Cli::command)
        .var(completions::ASKED)
        .complete();
    match catch_unwind(AssertUnwindSafe(run)) {
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

/// Runs the command of the command line; the exit code.
fn run() -> lessen_base::Result<u8> {
    match Cli::try_parse() {
        Err(answer) => stdout::print_answer(&answer),
        Ok(cli) => {
            if cli.quiet {
                terminal::be_quiet();
            }
            watcher::set_default(Arc::new(Terminal::default()))?;
            cli.command.run(Cli::command())
        }
    }
}

/// Prints a line on stderr. A closed pipe is no error.
fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
