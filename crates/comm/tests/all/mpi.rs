//! The example `ring` under every launcher of MPI that is in `PATH`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Names of launchers; a system may have several.
const LAUNCHERS: [&str; 4] = ["mpiexec", "mpiexec.hydra", "mpiexec.mpich", "mpiexec.openmpi"];

/// The launchers in `PATH`, each once.
fn launchers() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> = std::env::split_paths(&path)
        .flat_map(|folder| LAUNCHERS.map(|name| folder.join(name)))
        .filter_map(|file| file.canonicalize().ok())
        .collect();
    found.sort();
    found.dedup();
    if found.is_empty() {
        eprintln!("skipped: no mpiexec is in PATH (`pip install mpich` brings one)");
    }
    found
}

/// The example, which is built together with the tests.
fn ring() -> Option<PathBuf> {
    let test = std::env::current_exe().unwrap();
    let ring = test.parent()?.parent()?.join("examples/ring");
    if !ring.exists() {
        eprintln!("skipped: {} is not built", ring.display());
    }
    ring.exists().then_some(ring)
}

fn run(launcher: &Path, ring: &Path, ranks: usize, arguments: &[&str]) -> Output {
    let version = Command::new(launcher).arg("--version").output().unwrap();
    let mut command = Command::new(launcher);
    command.env_remove("LESSEN_MPI");
    if ["Open MPI", "OpenRTE"]
        .iter()
        .any(|name| String::from_utf8_lossy(&version.stdout).contains(name))
    {
        command.args(["--allow-run-as-root", "--oversubscribe"]);
    }
    command.args(["-n", &ranks.to_string()]).arg(ring).args(arguments);
    command.output().unwrap()
}

#[test]
fn any_number_of_ranks_of_any_library_gets_the_same_bits() {
    let Some(ring) = ring() else { return };
    let mut lines = Vec::new();
    for launcher in launchers() {
        for ranks in [1, 2, 3, 4] {
            let output = run(&launcher, &ring, ranks, &[]);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{} -n {ranks}: {errors}", launcher.display());
            lines.push(String::from_utf8(output.stdout).unwrap());
        }
        eprintln!("ran: {}", launcher.display());
    }
    assert!(
        lines.iter().all(|line| line.starts_with("sum ") && *line == lines[0]),
        "{lines:?}"
    );
}

#[test]
fn a_silent_rank_is_named_and_all_processes_end() {
    let Some(ring) = ring() else { return };
    for launcher in launchers() {
        let begun = Instant::now();
        let output = run(&launcher, &ring, 2, &["1", "3"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(
            errors.contains("error: step 1, sum of gradients: rank 1 of 2 has not answered for 3 s"),
            "{errors}"
        );
        assert!(begun.elapsed() < Duration::from_secs(30), "{}", launcher.display());
    }
}

#[test]
fn a_library_that_cannot_be_loaded_is_named_with_the_remedy() {
    let Some(ring) = ring() else { return };
    let output = Command::new(&ring)
        .env("LESSEN_MPI", "/nowhere/libmpi.so")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        errors.contains("LESSEN_MPI=/nowhere/libmpi.so names no MPI library") && errors.contains("pip install mpich"),
        "{errors}"
    );
}
