//! `lessen generate`

use super::asked_model::AskedModel;
use super::chat_args::ChatArgs;
use super::lines::Lines;
use crate::{say, stdout, tell};
use clap::Args;
use lessen_base::{Error, Result};
use lessen_saved::continuation::Continuation;
use lessen_saved::saved_run::SavedRun;
use lessen_train::{Beams, Rules, Sampling};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// How a text is continued where neither flags nor the model say otherwise.
fn default() -> Sampling {
    Sampling {
        temperature: 0.8,
        ..Sampling::default()
    }
}

/// Flags of `lessen generate`.
#[derive(Args)]
pub struct Generate {
    #[command(flatten)]
    asked: AskedModel,
    #[command(flatten)]
    start: Prompts,
    #[command(flatten)]
    chat: ChatArgs,
    /// Most tokens to add; the defaults of this flag and of those up to --stop come from the model's
    /// generation_config.json, if it has one (default: 200)
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    tokens: Option<usize>,
    /// Below 1 is more predictable, above is wilder; 0 always takes the most likely token (default: 0.8)
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    temperature: Option<f64>,
    /// Consider only the K most likely tokens
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    top_k: Option<usize>,
    /// Consider only the most likely tokens whose probabilities add up to P
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    top_p: Option<f64>,
    /// Consider only tokens with at least P times the probability of the most likely one
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    min_p: Option<f64>,
    /// Above 1, tokens that the text has already become less likely (default: 1)
    #[arg(long, value_name = "R", allow_hyphen_values = true)]
    repetition_penalty: Option<f64>,
    /// No sequence of N tokens occurs twice in a text and its prompt
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    no_repeat_ngram: Option<usize>,
    /// Tokens to add before a text may end
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    min_tokens: Option<usize>,
    /// Search the most likely texts with N beams in place of draws; 1 is no search
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    beams: Option<usize>,
    /// Above 1, beams favour longer texts, below 1 shorter ones (default: 1)
    #[arg(long, value_name = "L", allow_hyphen_values = true)]
    length_penalty: Option<f64>,
    /// End a text after this string, with the token that completes it; \n is a line end and \t a tab; may be repeated
    #[arg(long, value_name = "STRING", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Texts for each prompt
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    samples: usize,
    /// Seed of the draws
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

/// The texts to continue.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Prompts {
    /// The text to continue
    #[arg(long, allow_hyphen_values = true)]
    prompt: Option<String>,
    /// File with a text to continue on each line, all in one batch; - is stdin
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    prompts: Option<PathBuf>,
    /// File with a message of a chat on each line, a JSON object with role and content; or with a whole chat on each
    /// line, an object with messages and perhaps tools; - is stdin
    #[arg(long, value_name = "FILE", allow_hyphen_values = true, requires = "chat")]
    messages: Option<PathBuf>,
}

impl Generate {
    /// Continues the prompts; the exit code.
    pub fn run(self) -> Result<u8> {
        self.check()?;
        let prompts = match (&self.start.prompt, &self.start.prompts) {
            (Some(prompt), _) => vec![prompt.clone()],
            (None, Some(path)) => read(path)?,
            (None, None) => Vec::new(),
        };
        let mut run = self.asked.model.open(&self.asked.device)?;
        self.asked.precision.set(&mut run, &self.asked.device)?;
        let prompts = match &self.start.messages {
            _ if !self.chat.is_chat() => prompts,
            Some(path) => self.chat.prompts_of_file(&run, path)?,
            None => self.chat.prompts_of_users(&run, &prompts)?,
        };
        let how = self.continuation(&run)?;
        if let Some(note) = run.generation_note() {
            tell(&note);
        }
        self.warn(&run, &prompts)?;
        self.warn_of_length(&run, &prompts, how.sampling.tokens)?;
        if let ([prompt], 1, false) = (&prompts[..], how.samples, self.json) {
            let shown = if self.chat.is_chat() { "" } else { prompt };
            say_as_it_comes(&run, prompt, shown, &how)?;
            return Ok(0);
        }
        let added = run.generate(&prompts, &how, &mut |_, _| Ok(()))?;
        let numbered = |number: usize| (number / how.samples, number % how.samples);
        let texts = added.iter().enumerate().map(|(number, text)| (numbered(number), text));
        say(&match (self.json, &added[..]) {
            (true, [text]) => format!("{}\n", json!({ "prompt": prompts[0], "text": text })),
            (true, _) => {
                let texts = texts.map(
                    |((prompt, sample), text)| json!({ "prompt": prompts[prompt], "sample": sample + 1, "text": text }),
                );
                format!("{}\n", json!({ "texts": texts.collect::<Vec<Value>>() }))
            }
            (false, _) => texts
                .map(|((prompt, sample), text)| {
                    let (number, sample) = (prompt + 1, sample + 1);
                    let shown = if self.chat.is_chat() { "" } else { &prompts[prompt] };
                    format!("--- prompt {number}, sample {sample}\n{shown}{text}\n")
                })
                .collect(),
        })?;
        Ok(0)
    }

    /// The flags over other defaults.
    fn sampling(&self, rest: Sampling) -> Sampling {
        let draws = self.temperature.is_some_and(|temperature| temperature > 0.0);
        let beams = match (self.beams, rest.beams) {
            (Some(1), _) => None,
            (Some(count), own) => Some(Beams {
                count,
                ..own.unwrap_or(Beams::new(count))
            }),
            (None, own) => own.filter(|_| !draws),
        };
        let beams = beams.map(|own| Beams {
            length_penalty: self.length_penalty.unwrap_or(own.length_penalty),
            ..own
        });
        let drawn = if beams.is_some() { 0.0 } else { rest.temperature };
        Sampling {
            tokens: self.tokens.unwrap_or(rest.tokens),
            max_length: rest.max_length.filter(|_| self.tokens.is_none()),
            temperature: self.temperature.unwrap_or(drawn),
            top_k: self.top_k.or(rest.top_k),
            top_p: self.top_p.or(rest.top_p),
            min_p: self.min_p.or(rest.min_p),
            beams,
            rules: Rules {
                repetition_penalty: self.repetition_penalty.unwrap_or(rest.rules.repetition_penalty),
                no_repeat_ngram: self.no_repeat_ngram.unwrap_or(rest.rules.no_repeat_ngram),
                min_tokens: self.min_tokens.unwrap_or(rest.rules.min_tokens),
                ..rest.rules
            },
            seed: self.seed,
            ..rest
        }
    }

    /// Refuses contradictory flags.
    fn check(&self) -> Result<()> {
        self.sampling(default())
            .check()
            .map_err(|error| Error::user(format!("--{}", error.message())))?;
        if self.samples == 0 {
            return Err(Error::user("--samples 0 makes no text; choose at least 1"));
        }
        if self.stop.iter().any(String::is_empty) {
            return Err(Error::user(
                "--stop has an empty string, which is everywhere; leave it out",
            ));
        }
        Ok(())
    }

    /// How prompts are continued with a model.
    ///
    /// # Errors
    /// Contradictory flags.
    pub fn continuation(&self, run: &SavedRun) -> Result<Continuation> {
        self.check()?;
        let own = self.stop.iter().map(|stop| unescaped(stop)).collect();
        let how = Continuation {
            samples: self.samples,
            whole_prompts: self.chat.is_chat(),
            stops: if self.stop.is_empty() { run.stops() } else { own },
            ..Continuation::new(self.sampling(run.sampling(default())))
        };
        if self.length_penalty.is_some() && how.sampling.beams.is_none() {
            return Err(Error::user(
                "--length-penalty has no effect without beams; give --beams 2 or more",
            ));
        }
        Ok(how)
    }

    /// Warns of texts that become longer than the model's positions.
    fn warn_of_length(&self, run: &SavedRun, prompts: &[String], tokens: usize) -> Result<()> {
        for (number, prompt) in prompts.iter().enumerate() {
            if let Some(reason) = run.beyond_positions(prompt, tokens)? {
                let of = self.start.prompts.as_ref().map(|_| format!("prompt {}: ", number + 1));
                tell(&format!(
                    "warning: {}{reason}; shorten the prompt or set fewer --tokens",
                    of.unwrap_or_default()
                ));
            }
        }
        Ok(())
    }

    /// Warns of prompts that the model cannot read.
    fn warn(&self, run: &SavedRun, prompts: &[String]) -> Result<()> {
        for (number, prompt) in prompts.iter().enumerate() {
            let (unknown, tokens) = run.unknown_tokens(prompt)?;
            if unknown == 0 {
                continue;
            }
            let whose = match self.start.prompts {
                Some(_) => format!("prompt {}", number + 1),
                None => "the prompt".to_string(),
            };
            tell(&if unknown == tokens {
                format!("warning: the model knows no character of {whose}, so the text does not follow from it")
            } else {
                format!("warning: the model does not know {unknown} of the {tokens} tokens of {whose}")
            });
        }
        Ok(())
    }
}

/// Prints what is shown of a prompt and its continuation, piece by piece.
fn say_as_it_comes(run: &SavedRun, prompt: &str, shown: &str, how: &Continuation) -> Result<()> {
    let mut begun = false;
    let mut show = |_: usize, piece: &str| {
        if !std::mem::replace(&mut begun, true) {
            say(shown)?;
        }
        say(piece)?;
        if stdout::is_closed() {
            return Err(Error::user("nobody reads the text any more"));
        }
        Ok(())
    };
    match run.generate(&[prompt.to_string()], how, &mut show) {
        Err(_) if stdout::is_closed() => Ok(()),
        generated => generated.and_then(|_| say("\n")),
    }
}

/// The lines of a file.
fn read(path: &Path) -> Result<Vec<String>> {
    let (mut lines, mut prompts) = (Lines::open(path, "--prompts")?, Vec::new());
    while let Some(line) = lines.next()? {
        if line.is_empty() {
            let (name, line) = (lines.name(), lines.line());
            return Err(Error::user(format!(
                "{name} line {line} is empty; write a prompt on each line"
            )));
        }
        prompts.push(line);
    }
    Ok(prompts)
}

/// A text in which `\n`, `\t` and `\\` stand for what they do in most languages.
fn unescaped(text: &str) -> String {
    let (mut plain, mut characters) = (String::new(), text.chars().peekable());
    while let Some(character) = characters.next() {
        let meant = match (character, characters.peek()) {
            ('\\', Some('n')) => Some('\n'),
            ('\\', Some('t')) => Some('\t'),
            ('\\', Some('\\')) => Some('\\'),
            _ => None,
        };
        if meant.is_some() {
            characters.next();
        }
        plain.push(meant.unwrap_or(character));
    }
    plain
}
