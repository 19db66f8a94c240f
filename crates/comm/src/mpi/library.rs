//! Loads an MPI library, recognises its binary interface, and takes the functions that the wire calls.

use std::error::Error as _;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use lessen_base::{Error, Result};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::launcher;

/// The result of every function of MPI that succeeds, in all interfaces.
pub(super) const SUCCESS: c_int = 0;

/// Bytes that hold every text that a library gives: 8192 for its version, 512 for an error.
const TEXT: usize = 8192;

/// Bytes that hold the status of a message in every interface (20, 24 or 32), aligned as each needs.
#[repr(C, align(16))]
pub(super) struct Status(pub [u8; 64]);

/// Functions of a library whose handles are of the type `H`: `int` for MPICH, pointers otherwise.
pub(super) struct Functions<H> {
    pub init_thread: unsafe extern "C" fn(*mut c_int, *mut c_void, c_int, *mut c_int) -> c_int,
    pub initialized: unsafe extern "C" fn(*mut c_int) -> c_int,
    pub finalize: unsafe extern "C" fn() -> c_int,
    pub abort: unsafe extern "C" fn(H, c_int) -> c_int,
    pub comm_rank: unsafe extern "C" fn(H, *mut c_int) -> c_int,
    pub comm_size: unsafe extern "C" fn(H, *mut c_int) -> c_int,
    pub comm_set_errhandler: unsafe extern "C" fn(H, H) -> c_int,
    pub error_string: unsafe extern "C" fn(c_int, *mut c_char, *mut c_int) -> c_int,
    pub isend: unsafe extern "C" fn(*const c_void, c_int, H, c_int, c_int, H, *mut H) -> c_int,
    pub irecv: unsafe extern "C" fn(*mut c_void, c_int, H, c_int, c_int, H, *mut H) -> c_int,
    pub test: unsafe extern "C" fn(*mut H, *mut c_int, *mut Status) -> c_int,
    pub iprobe: unsafe extern "C" fn(c_int, c_int, H, *mut c_int, *mut Status) -> c_int,
    pub get_count: unsafe extern "C" fn(*const Status, H, *mut c_int) -> c_int,
}

/// Constants of a binary interface.
pub(super) struct Constants<H> {
    pub world: H,
    pub byte: H,
    pub errors_return: H,
    /// The thread level at which one thread, that which initialises MPI, makes all calls.
    pub funneled: c_int,
}

/// MPICH and its relatives: Intel MPI, Cray MPICH, MVAPICH.
pub(super) const MPICH: Constants<c_int> = Constants {
    world: 0x4400_0000,
    byte: 0x4c00_010d,
    errors_return: 0x5400_0001,
    funneled: 1,
};

/// Words of the versions of libraries with MPICH's interface.
pub(super) const RELATIVES: [&str; 4] = ["MPICH", "Intel", "MVAPICH", "CRAY"];

/// The standard interface of MPI 5.
pub(super) fn standard() -> Constants<*mut c_void> {
    let handle = std::ptr::without_provenance_mut;
    Constants {
        world: handle(0x101),
        byte: handle(0x247),
        errors_return: handle(0x143),
        funneled: 1024,
    }
}

/// Open MPI up to 5, whose handles are addresses of variables.
pub(super) fn open_mpi(library: &Loaded) -> Result<Constants<*mut c_void>> {
    Ok(Constants {
        // SAFETY: `*mut c_void` takes the address of a symbol, whatever its type, and none is read through it.
        world: unsafe { library.symbol("ompi_mpi_comm_world") }?,
        // SAFETY: as above.
        byte: unsafe { library.symbol("ompi_mpi_byte") }?,
        // SAFETY: as above.
        errors_return: unsafe { library.symbol("ompi_mpi_errors_return") }?,
        funneled: 1,
    })
}

/// A library with the path by which it was found.
pub(super) struct Loaded {
    library: &'static Library,
    pub path: PathBuf,
}

impl Loaded {
    /// Loads a library for as long as the process lives: MPI's may not be unloaded while threads of it run.
    fn load(path: &Path) -> std::result::Result<Loaded, libloading::Error> {
        // SAFETY: the initialisers of an MPI library may run at any time; the user, the system or the launcher named
        // it. Open MPI's plugins look for its symbols among the global ones.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }?;
        Ok(Loaded {
            library: Box::leak(Box::new(library)),
            path: path.to_path_buf(),
        })
    }

    /// A function, or the address of a variable.
    ///
    /// # Safety
    /// `T` has the size of a pointer and is the type of the symbol: of a function its type, of a variable a pointer.
    unsafe fn symbol<T: Copy>(&self, name: &str) -> Result<T> {
        // SAFETY: the caller says that `T` is the symbol's type; the library is never unloaded.
        let symbol = unsafe { self.library.get::<T>(name) };
        symbol.map(|symbol| *symbol).map_err(|_| {
            let path = self.path.display();
            Error::user(format!("{path} is no complete MPI library: it has no {name}; {REMEDY}"))
        })
    }

    /// The functions of a library whose handles are of the type `H`.
    ///
    /// # Safety
    /// The handles of the library are of the type `H`.
    pub unsafe fn functions<H>(&self) -> Result<Functions<H>> {
        // SAFETY: these are the types of the functions in the MPI standard, in C, where all handles are of one type
        // `H`.
        unsafe {
            Ok(Functions {
                init_thread: self.symbol("MPI_Init_thread")?,
                initialized: self.symbol("MPI_Initialized")?,
                finalize: self.symbol("MPI_Finalize")?,
                abort: self.symbol("MPI_Abort")?,
                comm_rank: self.symbol("MPI_Comm_rank")?,
                comm_size: self.symbol("MPI_Comm_size")?,
                comm_set_errhandler: self.symbol("MPI_Comm_set_errhandler")?,
                error_string: self.symbol("MPI_Error_string")?,
                isend: self.symbol("MPI_Isend")?,
                irecv: self.symbol("MPI_Irecv")?,
                test: self.symbol("MPI_Test")?,
                iprobe: self.symbol("MPI_Iprobe")?,
                get_count: self.symbol("MPI_Get_count")?,
            })
        }
    }

    /// The name and version that the library gives itself, on one line.
    pub fn version(&self) -> Result<String> {
        // SAFETY: this is the function's type in the MPI standard.
        let version: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int =
            unsafe { self.symbol("MPI_Get_library_version") }?;
        Ok(text(|buffer, length| {
            // SAFETY: the function may be called before MPI is initialised, and the buffer holds the longest version.
            unsafe { version(buffer, length) }
        }))
    }

    /// Whether the library has the standard interface. MPICH has the function that tells it with its own interface,
    /// too.
    pub fn is_standard(&self) -> bool {
        type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
        // SAFETY: this is the function's type in the MPI standard.
        let Ok(version) = (unsafe { self.symbol::<Version>("MPI_Abi_get_version") }) else {
            return false;
        };
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the function may be called before MPI is initialised, and writes two numbers.
        unsafe { version(&mut major, &mut minor) == SUCCESS && major >= 1 }
    }
}

/// The first line of a text that a function of MPI writes with its length.
pub(super) fn text(write: impl FnOnce(*mut c_char, *mut c_int) -> c_int) -> String {
    let mut buffer = [0u8; TEXT];
    let mut length = 0;
    write(buffer.as_mut_ptr().cast(), &mut length);
    let text = CStr::from_bytes_until_nul(&buffer)
        .unwrap_or_default()
        .to_string_lossy();
    text.lines().next().unwrap_or_default().trim().to_string()
}

/// How a user gets a library.
pub(super) const REMEDY: &str = "install one (`pip install mpich`, or the package mpich or openmpi of the system), or \
                                 name it by LESSEN_MPI=PATH";

/// The library that is named, or the first of the candidates that loads.
pub(super) fn find() -> Result<Loaded> {
    if let Some(path) = launcher::named() {
        return Loaded::load(&path).map_err(|error| {
            let (name, path) = (launcher::LIBRARY, path.display());
            let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            Error::user(format!(
                "{name}={path} names no MPI library that can be loaded ({reason}); {REMEDY}"
            ))
        });
    }
    let mut candidates = launcher::candidates().into_iter();
    candidates
        .find_map(|path| Loaded::load(&path).ok())
        .ok_or_else(|| Error::user(format!("there is no MPI library on this machine; {REMEDY}")))
}
