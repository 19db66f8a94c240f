//! The processes that share a training: what each of them is given.
//!
//! All processes go through the same job. The first one has its folder; each other one has a folder of its own for as
//! long as it runs, and begins with a copy of the first one's.

use lessen_base::atomic::unwritable;
use lessen_base::{Error, Result};
use lessen_comm::Group;
use lessen_task::recipe::phases::Recipe;
use lessen_task::recipe::settings::Settings;
use lessen_task::recipe::value::SettingValue;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Bytes of a file that are sent at a time.
const PIECE: usize = 1 << 26;

/// The folder of a process that is not the first, which is removed with this.
pub struct OwnFolder(TempDir);

impl OwnFolder {
    /// A folder in that of temporary files.
    ///
    /// # Errors
    /// A folder that cannot be created.
    pub fn new() -> Result<OwnFolder> {
        let made = tempfile::Builder::new().prefix("lessen-").tempdir();
        made.map(OwnFolder).map_err(|error| {
            let place = std::env::temp_dir();
            Error::user(format!(
                "no folder can be made in {} ({error}), which a process beside the first one needs; make room, or set TMPDIR",
                place.display()
            ))
        })
    }

    /// The folder of its job.
    pub fn job(&self) -> PathBuf {
        self.0.path().join("job")
    }
}

/// Copies the folder of a job from the first process to the folders of the others: `folder` is that of this process.
/// Locks and the events for TensorBoard stay where they are.
///
/// # Errors
/// A folder that cannot be read or written to.
pub fn copy_folder(group: &Group, folder: &Path) -> Result<()> {
    let mut listed = Vec::new();
    let read = match group.is_first() {
        true => list(folder, Path::new(""), &mut listed),
        false => Ok(()),
    };
    let names = read.map(|()| listed.join("\n").into_bytes());
    let names = group.agree("the folder of the run", names)?.swap_remove(0);
    for name in String::from_utf8_lossy(&names).lines() {
        copy_file(group, &folder.join(name))?;
    }
    Ok(())
}

/// Lists the files below a folder of the job.
fn list(root: &Path, below: &Path, listed: &mut Vec<String>) -> Result<()> {
    let place = root.join(below);
    let unreadable = |error: std::io::Error| {
        Error::user(format!(
            "{} cannot be read ({error}); restore the folder",
            place.display()
        ))
    };
    for entry in fs::read_dir(&place).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = below.join(entry.file_name());
        let is_kept = |name: &str| name == ".lock" || name.starts_with("events.out.tfevents");
        if entry.path().is_dir() {
            list(root, &path, listed)?;
        } else if let Some(name) = path.to_str()
            && !is_kept(&entry.file_name().to_string_lossy())
        {
            listed.push(name.to_string());
        }
    }
    Ok(())
}

/// Copies a file from the first process to the others.
fn copy_file(group: &Group, path: &Path) -> Result<()> {
    let shown = path.display().to_string();
    let mut file = if group.is_first() {
        File::open(path)
    } else {
        let parent = path.parent().unwrap_or(path);
        fs::create_dir_all(parent).map_err(|error| unwritable(parent, &error))?;
        File::create(path)
    };
    loop {
        let piece = match (&mut file, group.is_first()) {
            (Ok(file), true) => {
                let mut piece = Vec::new();
                file.take(PIECE as u64).read_to_end(&mut piece).map(|_| piece)
            }
            (Ok(_), false) => Ok(Vec::new()),
            (Err(error), _) => Err(std::io::Error::from(error.kind())),
        };
        let piece =
            piece.map_err(|error| Error::user(format!("{shown} cannot be copied ({error}); restore the folder")));
        let piece = group.agree("a file of the run", piece)?.swap_remove(0);
        if let (Ok(file), false) = (&mut file, group.is_first()) {
            file.write_all(&piece).map_err(|error| unwritable(path, &error))?;
        }
        if piece.len() < PIECE {
            return Ok(());
        }
    }
}

/// The settings of a new run that `processes` processes share: the number of groups is set, and each batch is cut into
/// as many parts where a step has one batch.
///
/// # Errors
/// Settings with a mistake; a batch whose examples the number of groups does not divide.
pub(crate) fn in_groups(mut settings: Settings, processes: usize) -> Result<Settings> {
    let ranks = match settings.get("train.ranks") {
        Some(SettingValue::Count(ranks)) if *ranks > 0 => usize::try_from(*ranks).unwrap_or(usize::MAX),
        _ => processes,
    };
    if ranks <= 1 {
        return Ok(settings);
    }
    let set = |settings: &mut Settings, key: &str, value: usize| {
        let origin = format!("the {ranks} groups of a step");
        settings.set_named(key, SettingValue::Count(value as u64), origin)
    };
    set(&mut settings, "train.ranks", 1)?;
    let recipe = Recipe::new(settings.clone())?;
    let train = &recipe.phases[0].train;
    set(&mut settings, "train.ranks", ranks)?;
    if train.accumulate == 1 && train.tokens == 0 {
        if !train.batch.is_multiple_of(ranks) {
            return Err(Error::user(format!(
                "a batch of train.batch = {} examples cannot be cut for train.ranks = {ranks}; set train.batch to a \
                 multiple of it, or train.accumulate to a multiple and train.batch to the examples of a part",
                train.batch
            )));
        }
        set(&mut settings, "train.accumulate", ranks)?;
        set(&mut settings, "train.batch", train.batch / ranks)?;
    }
    Ok(settings)
}

/// Refuses processes of other versions, settings or data.
///
/// # Errors
/// What differs, and the process; a process that does not answer.
pub(crate) fn check_same(group: &Group, settings: &Settings, data: &str) -> Result<()> {
    group.agree_same("the version", env!("CARGO_PKG_VERSION"))?;
    let text = settings.to_toml();
    let all = group.agree("the settings", Ok(text.clone().into_bytes()))?;
    let first = String::from_utf8_lossy(&all[0]);
    for (rank, other) in all.iter().enumerate() {
        let other = String::from_utf8_lossy(other);
        let differs = |of: &str, than: &str| {
            of.lines()
                .find(|line| !than.lines().any(|own| own == *line))
                .map(String::from)
        };
        if let Some(line) = differs(&other, &first).or_else(|| differs(&first, &other)) {
            return Err(Error::user(format!(
                "rank {rank} and rank 0 have other settings: one of them alone has {line}; start every process with the \
                 same recipe and flags"
            )));
        }
    }
    group.agree_same("the digest of the data", data)
}

/// What all processes do next, where each asks for something, or has a mistake, which is then that of all: the inner
/// error is for their callers, and the run goes on. The `end` that one asks for is the end of all.
///
/// # Errors
/// A process that does not answer.
pub(crate) fn agreed<'a>(group: &Group, own: Result<&'a str>, end: &'a str) -> Result<Result<&'a str>> {
    if group.size() == 1 {
        return Ok(own);
    }
    let told = own
        .as_ref()
        .map_or_else(|error| format!("-{error}"), |wish| format!("+{wish}"));
    let all = group.agree("what comes next", Ok(told.into_bytes()))?;
    let all: Vec<_> = all.iter().map(|told| String::from_utf8_lossy(told)).collect();
    if all.iter().any(|told| told.strip_prefix('+') == Some(end)) {
        return Ok(Ok(end));
    }
    let mut mistakes = all
        .iter()
        .enumerate()
        .filter_map(|(rank, told)| Some((rank, told.strip_prefix('-')?)));
    if let Some((rank, mistake)) = mistakes.next() {
        return Ok(Err(Error::user(format!("{mistake} (rank {rank} of {})", group.size()))));
    }
    Ok(match all.iter().position(|told| *told != all[0]) {
        None => own,
        Some(rank) => Err(Error::user(format!(
            "rank {rank} asks for {} where rank 0 asks for {}; let every process ask for the same",
            &all[rank][1..],
            &all[0][1..]
        ))),
    })
}

/// Refuses processes that each give one batch to a step of another number of batches.
///
/// # Errors
/// Another number.
pub(crate) fn check_one_each(group: &Group, batches: usize) -> Result<()> {
    if group.size() == 1 || batches == group.size() {
        return Ok(());
    }
    Err(Error::user(format!(
        "a step has train.accumulate = {batches} batches, and {size} processes give one each; set train.ranks and \
         train.accumulate to {size}, or start {batches} processes",
        size = group.size()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::SCHEMA;
    use lessen_comm::{Exchange, ThreadWire};
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_batch_is_cut_for_the_groups_where_it_can_be() {
        let with = |flags: &str, processes| {
            let mut settings = SCHEMA.load("adder").unwrap();
            flags.split(' ').for_each(|flag| settings.set_flag(flag).unwrap());
            in_groups(settings, processes)
        };
        let count = |settings: &Settings, key: &str| match settings.get(key) {
            Some(SettingValue::Count(count)) => *count,
            _ => 0,
        };
        let of = |settings: Result<Settings>| {
            let settings = settings.unwrap();
            ["train.ranks", "train.accumulate", "train.batch"].map(|key| count(&settings, key))
        };
        assert_eq!(of(with("train.batch=12", 4)), [4, 4, 3]);
        assert_eq!(of(with("train.batch=12 train.accumulate=4", 4)), [4, 4, 12]);
        assert_eq!(of(with("train.batch=12 train.ranks=6", 1)), [6, 6, 2]);
        let error = with("train.batch=12", 5).unwrap_err().to_string();
        assert!(
            error.contains("train.batch = 12 examples cannot be cut for train.ranks = 5"),
            "{error}"
        );
    }

    #[test]
    fn all_processes_ask_for_the_same() {
        let ask = |wishes: [Result<&'static str>; 2]| {
            let ranks = ThreadWire::connected(2).into_iter().zip(wishes).map(|(wire, own)| {
                thread::spawn(move || {
                    let exchange = Exchange::start(Duration::from_secs(60), || Ok(Box::new(wire) as _)).unwrap();
                    let next = agreed(&Group::of(Arc::new(exchange)), own, "the end").unwrap();
                    next.unwrap_or_else(|error| error.to_string().leak())
                })
            });
            let all: Vec<_> = ranks.collect();
            let [first, second] = all.try_into().unwrap_or_else(|_| panic!("two ranks"));
            let (first, second) = (first.join().unwrap(), second.join().unwrap());
            assert_eq!(first, second);
            first
        };
        assert_eq!(ask([Ok("a step"), Ok("a step")]), "a step");
        assert_eq!(ask([Ok("a step"), Ok("the end")]), "the end");
        let wrong = Err(Error::user("the label eggs is none of 2 classes; correct it"));
        let sentence = "the label eggs is none of 2 classes; correct it (rank 1 of 2)";
        assert_eq!(ask([Ok("a step"), wrong]), sentence);
        let sentence = "rank 1 asks for an evaluation where rank 0 asks for a step; let every process ask for the same";
        assert_eq!(ask([Ok("a step"), Ok("an evaluation")]), sentence);
    }
}
