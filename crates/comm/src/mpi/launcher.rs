//! What started this process, and where its MPI library may be.

use std::borrow::Cow;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The environment variable that names an MPI library.
pub(super) const LIBRARY: &str = "LESSEN_MPI";

/// How Open MPI calls itself.
pub(super) const OPEN_MPI: &str = "Open MPI";

/// Variables in which launchers tell the number of processes. Those of Open MPI come first: a process that it starts
/// has them alone.
const SIZES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"];

/// Names of libraries: of the standard interface, of MPICH and its relatives, and of Open MPI.
#[cfg(target_os = "macos")]
const NAMES: [&str; 5] = [
    "libmpi_abi.1.dylib",
    "libmpi_abi.0.dylib",
    "libmpi.12.dylib",
    "libmpich.12.dylib",
    "libmpi.40.dylib",
];
#[cfg(not(target_os = "macos"))]
const NAMES: [&str; 5] = [
    "libmpi_abi.so.1",
    "libmpi_abi.so.0",
    "libmpi.so.12",
    "libmpich.so.12",
    "libmpi.so.40",
];

/// The number of processes that a launcher of MPI (`mpiexec`, `mpirun`, `srun`) has started together with this one;
/// none without a launcher.
pub fn launched() -> Option<usize> {
    SIZES.iter().find_map(|name| env::var(name).ok()?.parse().ok())
}

/// The library that the user names.
pub(super) fn named() -> Option<PathBuf> {
    env::var_os(LIBRARY).filter(|name| !name.is_empty()).map(PathBuf::from)
}

/// Libraries to try, the likeliest first: those beside the launcher, those that the system finds by name, and those of
/// the environment of Python or Conda.
pub(super) fn candidates() -> Vec<PathBuf> {
    let mut names = NAMES.map(Path::new);
    if env::var_os(SIZES[0]).is_some() {
        names.reverse();
    }
    let programs = env::current_exe().into_iter().filter_map(|path| beside(&path));
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(env::var_os)
        .map(|root| Path::new(&root).join("lib"));
    let after = programs.chain(environments);
    let in_folder = |folder: PathBuf| names.map(|name| folder.join(name)).into_iter();
    let there = |path: &PathBuf| path.exists();
    let launchers = launchers().filter_map(|path| beside(&path));
    let mut found: Vec<PathBuf> = launchers.flat_map(in_folder).filter(there).collect();
    found.extend(names.map(PathBuf::from));
    found.extend(after.flat_map(in_folder).filter(there));
    found
}

/// The MPI whose launcher started this process, where that is known: [`OPEN_MPI`], or `MPICH` for it and its relatives.
pub(super) fn family() -> Option<&'static str> {
    if env::var_os(SIZES[0]).is_some() {
        return Some(OPEN_MPI);
    }
    launchers()
        .any(|program| name_of(&program).contains("hydra"))
        .then_some("MPICH")
}

/// The folder of libraries that belongs to a program: `PREFIX/lib` of `PREFIX/bin/PROGRAM`.
fn beside(program: &Path) -> Option<PathBuf> {
    Some(program.parent()?.parent()?.join("lib"))
}

/// The launchers among the processes that started this one, as Linux tells them.
fn launchers() -> impl Iterator<Item = PathBuf> {
    let above = |process: &u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name of the program stands in parentheses and may hold spaces; state and parent follow.
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        (parent > 1).then_some(parent)
    };
    std::iter::successors(above(&std::process::id()), above)
        .filter_map(|process| fs::read_link(format!("/proc/{process}/exe")).ok())
        .filter(|program| {
            let name = name_of(program);
            ["hydra", "mpi", "orte", "prte"].iter().any(|word| name.contains(word))
        })
}

/// The name of a program's file.
fn name_of(program: &Path) -> Cow<'_, str> {
    program.file_name().unwrap_or_default().to_string_lossy()
}
