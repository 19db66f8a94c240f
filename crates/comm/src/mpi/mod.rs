//! MPI as a wire: a library that is on the machine is loaded at run time, so that Lessen is built without one.
//!
//! Libraries come with one of three binary interfaces: the standard one of MPI 5, that of MPICH and its relatives, and
//! that of Open MPI. This module is the one place of the crate with `unsafe`: functions of a C library have no other
//! door.
#![allow(unsafe_code)]

mod launcher;
mod library;
mod wire;

pub use launcher::launched;

use lessen_base::{Error, Result};

use crate::wire::Wire;
use library::{MPICH, RELATIVES, REMEDY};
use wire::MpiWire;

/// Loads and initialises MPI, and connects to the processes that the launcher started; alone, without a launcher.
///
/// `LESSEN_MPI` names the library; without it, the launcher's is looked for, then those of the system, and of the
/// environment of Python or Conda. MPI can be opened once in a process, and the wire stays in the thread that opens it,
/// as in [`Exchange::start`](crate::Exchange::start).
///
/// ```no_run
/// let exchange = lessen_comm::Exchange::start(lessen_comm::DEADLINE, lessen_comm::mpi::open)?;
/// # lessen_base::Result::Ok(())
/// ```
///
/// # Errors
/// No MPI library, one that cannot be used, or one that does not belong to the launcher.
pub fn open() -> Result<Box<dyn Wire>> {
    let library = library::find()?;
    let version = library.version()?;
    let name = format!("{} ({version})", library.path.display());
    // The wrong library would end the process while it starts.
    if let Some(family) = launcher::family()
        && (family == launcher::OPEN_MPI) != version.contains(launcher::OPEN_MPI)
    {
        return Err(Error::user(format!(
            "the launcher belongs to {family}, and {name} to another MPI; start the program by the library's own \
             `mpiexec`, or name the launcher's library by {}=PATH",
            launcher::LIBRARY
        )));
    }
    if library.is_standard() {
        // SAFETY: handles of the standard interface are pointers.
        let functions = unsafe { library.functions() }?;
        Ok(Box::new(MpiWire::open(functions, library::standard(), &name)?))
    } else if let Ok(constants) = library::open_mpi(&library) {
        // SAFETY: handles of Open MPI, which has variables of these names, are pointers.
        let functions = unsafe { library.functions() }?;
        Ok(Box::new(MpiWire::open(functions, constants, &name)?))
    } else if RELATIVES.iter().any(|word| version.contains(word)) {
        // SAFETY: handles of MPICH and its relatives are of the type `int`.
        let functions = unsafe { library.functions() }?;
        Ok(Box::new(MpiWire::open(functions, MPICH, &name)?))
    } else {
        Err(Error::user(format!(
            "{name} is an MPI library whose binary interface is unknown; {REMEDY}"
        )))
    }
}
