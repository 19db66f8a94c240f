//! The command `lessen` as functions: its `main`, and its commands and flags for other programs.

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use clap::{CommandFactory, Parser};
use clap_complete::env::CompleteEnv;
use lessen_base::watcher::{self, Watcher};
use lessen_base::{Error, Result};
use lessen_comm::Group;
use lessen_jobs::job::processes::OwnFolder;
use lessen_jobs::training::Request;
use lessen_saved::continuation::Continuation;
use lessen_saved::saved_run::SavedRun;
use lessen_task::device::NewBackend;

use crate::commands::{Command, completions};
use crate::stdout;
use crate::terminal::{self, Terminal, tell};

/// Trains and runs neural networks with less: less memory, less time, the same answer.
#[derive(Parser)]
#[command(name = "lessen", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Show no progress; warnings and errors stay
    #[arg(long, short, global = true)]
    quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What a command has printed on stdout, and its exit code: 0, or 130 for a job that was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// The exit code.
    pub code: u8,
}

/// Runs the command with these arguments, of which the first is its name; the exit code. It prints, listens to Ctrl-C,
/// and answers shells that ask what may stand on the command line.
pub fn main_with(args: Vec<OsString>) -> u8 {
    let shell = CompleteEnv::with_factory(Cli::command).var(completions::ASKED);
    match shell.try_complete(&args, std::env::current_dir().ok().as_deref()) {
        Ok(false) => {}
        Ok(true) => return 0,
        Err(answer) => return stdout::print_answer(&answer).unwrap_or(1),
    }
    match catch_unwind(AssertUnwindSafe(|| run(&args))) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => {
            tell(&format!("error: {error}"));
            u8::try_from(error.exit_code()).unwrap_or(1)
        }
        Err(_) => {
            tell("error: this is a bug in Lessen; please report it with the lines above");
            1
        }
    }
}

/// Runs the command of the command line; the exit code.
fn run(args: &[OsString]) -> Result<u8> {
    match Cli::try_parse_from(args) {
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

/// Runs the command with these arguments, without its name, and returns what it would print. Its remarks and progress
/// go to the watcher, which may stop it.
///
/// # Errors
/// Those of the command, and arguments that it refuses.
pub fn answer(args: &[String], watcher: Arc<dyn Watcher>) -> Result<Answer> {
    let command = parsed(args)?;
    let (code, text) = stdout::kept(|| watcher::watched_by(watcher, || command.run(Cli::command())));
    code.map(|code| Answer { text, code })
}

/// The training that `lessen train` asks for with these arguments, and its device.
///
/// # Errors
/// Arguments that it refuses.
pub fn training(args: &[String]) -> Result<(Request, NewBackend)> {
    match parsed(&[&["train".to_string()], args].concat())? {
        Command::Train(train) => Ok((train.request()?, train.new_backend())),
        _ => Err(Error::internal("arguments of a training that are none")),
    }
}

/// The training that `lessen train` asks for with these arguments and the processes of a group share, its device, and
/// the folder of this process, if it is not the first.
///
/// # Errors
/// Arguments that it refuses; a mistake of another process, and one that does not answer.
pub fn shared_training(args: &[String], group: &Group) -> Result<(Request, NewBackend, Option<OwnFolder>)> {
    let command = parsed(&[&["train".to_string()], args].concat());
    let told = command.as_ref().map(|_| Vec::new()).map_err(Error::clone);
    group.agree("the arguments", told)?;
    match command? {
        Command::Train(train) => {
            let (request, own) = train.shared_request(group)?;
            Ok((request, train.new_backend(), own))
        }
        _ => Err(Error::internal("arguments of a training that are none")),
    }
}

/// How `lessen generate` continues prompts with a model, by these flags.
///
/// # Errors
/// Flags that it refuses.
pub fn continuation(flags: &[String], run: &SavedRun) -> Result<Continuation> {
    let command = ["generate", "MODEL", "--prompt", ""].map(String::from);
    match parsed(&[&command, flags].concat())? {
        Command::Generate(generate) => generate.continuation(run),
        _ => Err(Error::internal("flags of a continuation that are none")),
    }
}

/// The command of these arguments, without its name.
fn parsed(args: &[String]) -> Result<Command> {
    let named = ["lessen".to_string()].into_iter().chain(args.iter().cloned());
    Cli::try_parse_from(named).map(|cli| cli.command).map_err(|refused| {
        let text = refused.to_string();
        let sentence = text.split("\n\n").next().unwrap_or_default();
        Error::user(sentence.trim_start_matches("error: ").trim_end())
    })
}
