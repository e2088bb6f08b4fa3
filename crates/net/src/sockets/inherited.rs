//! Sockets inherited at process start: socket activation (`LISTEN_FDS`), as systemd and others do it.

use std::env;
use std::io;
use std::iter::repeat_with;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use waterwheel_channel::{Address, Listener};

use crate::address::from_kernel;
use crate::sockets::existing_sockets::{check_listening, existing_listener};
use crate::sys::inherited::{InheritanceClaim, UnclaimableDescriptor};

/// The first inherited descriptor (SD_LISTEN_FDS_START); the numbers are consecutive.
const FIRST_FD: RawFd = 3;

/// The name that systemd gives to a socket without a name.
const UNNAMED: &str = "unknown";

/// A listening socket that the process has inherited from the program that started it.
///
/// The starting program binds the sockets and announces them in the environment: `LISTEN_FDS` is their number,
/// `LISTEN_PID` the process they are for, `LISTEN_FDNAMES` their names, if any, separated by colons. A server
/// can thus be started by its first client, be restarted without refusing connections, and listen at ports that
/// it may not bind itself.
///
/// ```no_run
/// use waterwheel_channel::{EventLoopGroup, ServerBootstrap};
/// use waterwheel_net::{Auto, Inherited, Tcp};
///
/// let inherited = Inherited::take()?; // First in main, before any descriptor is opened.
/// let group = EventLoopGroup::builder(Auto).build()?;
/// let bootstrap = ServerBootstrap::new(&group, Tcp);
/// for socket in inherited {
///     println!("{} at {:?}", socket.name(), socket.local_address());
///     let server = bootstrap.listen_on(socket.into_listener()?).join()?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Inherited {
    name: String,
    fd: OwnedFd,
}

/// The reason why inherited sockets cannot be taken. The sockets stay unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InheritError {
    /// An environment variable has an invalid value.
    #[error("environment variable {variable}={value:?} is not a valid number")]
    InvalidNumber {
        /// The name of the variable.
        variable: &'static str,
        /// The value of the variable.
        value: String,
    },
    /// The number of names differs from the number of sockets.
    #[error(
        "LISTEN_FDNAMES={names:?} does not have one name for each socket of LISTEN_FDS={sockets}"
    )]
    NameCount {
        /// The names.
        names: String,
        /// The number of sockets.
        sockets: RawFd,
    },
    /// An inherited descriptor is not a listening socket.
    #[error("inherited descriptor {descriptor} (`{name}`) is not a listening socket: {cause}")]
    NotListening {
        /// The descriptor number.
        descriptor: RawFd,
        /// The name of the socket.
        name: String,
        /// The failed check.
        #[source]
        cause: io::Error,
    },
    /// The descriptor was opened by this process and has another owner: FD_CLOEXEC is set, so it did not come
    /// through execve(2).
    #[error(
        "descriptor {descriptor} (`{name}`) was not inherited: this process has opened it (FD_CLOEXEC is set)"
    )]
    NotInherited {
        /// The descriptor number.
        descriptor: RawFd,
        /// The name of the socket.
        name: String,
    },
    /// [`Inherited::take`] was called before, whether it succeeded or not.
    #[error(
        "Inherited::take was called before: only its first caller receives the inherited sockets"
    )]
    AlreadyTaken,
}

impl Inherited {
    /// Takes the sockets that this process has inherited, in order. The list is empty without inherited
    /// sockets, or if they are for another process. The sockets become close-on-exec: programs started by this
    /// process do not inherit them.
    ///
    /// Only the first call can succeed; any later call returns [`AlreadyTaken`](InheritError::AlreadyTaken), so that
    /// no descriptor gets two owners. Call `take` at the beginning of `main`: later the descriptor numbers could
    /// belong to other files. A descriptor that Rust code has opened is recognised by FD_CLOEXEC and refused;
    /// one that a C library has opened without `O_CLOEXEC` is not.
    ///
    /// The environment is not changed. `LISTEN_PID` names this process, so child processes ignore the rest.
    ///
    /// # Errors
    /// See [`InheritError`].
    pub fn take() -> Result<Vec<Self>, InheritError> {
        let passed = ListenEnvironment::from_env(|name| env::var_os(name)?.into_string().ok())?;
        if passed.sockets == 0 {
            return Ok(Vec::new());
        }
        take_all(passed, InheritanceClaim::make().ok_or(InheritError::AlreadyTaken)?)
    }

    /// Returns the name of the socket; `unknown` if it has none.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address at which the socket listens.
    #[must_use]
    pub fn local_address(&self) -> Option<Address> {
        from_kernel(rustix::net::getsockname(&self.fd).ok()?)
    }

    /// Returns a transport for [`ServerBootstrap::listen_on`](waterwheel_channel::ServerBootstrap::listen_on).
    ///
    /// # Errors
    /// Returns the errors of [`existing_listener`].
    pub fn into_listener(self) -> io::Result<Listener> {
        existing_listener(self.fd)
    }
}

impl AsFd for Inherited {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Inherited> for OwnedFd {
    fn from(inherited: Inherited) -> Self {
        inherited.fd
    }
}

/// The inherited sockets as the environment announces them.
#[derive(Debug, PartialEq, Eq)]
struct ListenEnvironment {
    /// The number of sockets. The environment may state any number, so no memory is allocated before each socket was
    /// checked.
    sockets: RawFd,
    /// One name per socket, if there are names.
    names: Option<Vec<String>>,
}

impl ListenEnvironment {
    fn from_env(variable: impl Fn(&str) -> Option<String>) -> Result<Self, InheritError> {
        let nothing = ListenEnvironment { sockets: 0, names: None };
        let (Some(pid), Some(sockets)) = (variable("LISTEN_PID"), variable("LISTEN_FDS")) else {
            return Ok(nothing);
        };
        if number::<u32>("LISTEN_PID", &pid)? != std::process::id() {
            return Ok(nothing); // The sockets are for a parent process.
        }
        let sockets: RawFd = number("LISTEN_FDS", &sockets)?;
        if sockets < 0 || FIRST_FD.checked_add(sockets).is_none() {
            return Err(invalid_number("LISTEN_FDS", &sockets.to_string()));
        }
        // For zero sockets LISTEN_FDNAMES is an empty text, which `split` would return as one empty name.
        let names = variable("LISTEN_FDNAMES").filter(|names| sockets > 0 || !names.is_empty());
        let names = match names {
            Some(names) if names.split(':').count() != sockets.unsigned_abs() as usize => {
                return Err(InheritError::NameCount { names, sockets });
            }
            names => names.map(|names| names.split(':').map(str::to_owned).collect()),
        };
        Ok(ListenEnvironment { sockets, names })
    }

    fn descriptors(&self) -> Range<RawFd> {
        FIRST_FD..FIRST_FD + self.sockets
    }

    /// Returns the names of the sockets, in order.
    fn names(self) -> impl Iterator<Item = String> {
        let sockets = self.sockets.unsigned_abs() as usize;
        let unnamed = repeat_with(|| UNNAMED.to_owned());
        self.names.into_iter().flatten().chain(unnamed).take(sockets)
    }
}

fn number<N: std::str::FromStr>(variable: &'static str, value: &str) -> Result<N, InheritError> {
    value.parse().map_err(|_| invalid_number(variable, value))
}

fn invalid_number(variable: &'static str, value: &str) -> InheritError {
    InheritError::InvalidNumber { variable, value: value.to_owned() }
}

/// Takes all sockets or none: after a failed check every descriptor stays open and unchanged.
fn take_all(
    passed: ListenEnvironment,
    claim: InheritanceClaim,
) -> Result<Vec<Inherited>, InheritError> {
    let descriptors = passed.descriptors();
    let mut names = passed.names();
    let taken = claim.take(descriptors, |descriptor, checked| {
        let name = names.next().unwrap_or_default();
        match checked.map(check_listening) {
            Ok(Ok(_)) => Ok(name),
            Ok(Err(cause)) | Err(UnclaimableDescriptor::Closed(cause)) => {
                Err(InheritError::NotListening { descriptor, name, cause })
            }
            Err(UnclaimableDescriptor::Opened) => {
                Err(InheritError::NotInherited { descriptor, name })
            }
        }
    })?;
    Ok(taken.into_iter().map(|(name, fd)| Inherited { name, fd }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(variables: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let value = |name: &str| {
            let found = variables.iter().find(|(it, _)| *it == name);
            found.map(|(_, value)| value.replace("me", &std::process::id().to_string()))
        };
        let passed = ListenEnvironment::from_env(value).map_err(|error| error.to_string())?;
        // A limit above the number of sockets in these tests.
        Ok(passed.names().take(10).collect())
    }

    #[test]
    fn c12_the_environment_announces_the_inherited_sockets() {
        let none: Vec<String> = Vec::new();
        assert_eq!(passed(&[]), Ok(none.clone()));
        assert_eq!(passed(&[("LISTEN_FDS", "2")]), Ok(none.clone()), "without LISTEN_PID");
        let others = [("LISTEN_PID", "1"), ("LISTEN_FDS", "2")];
        assert_eq!(passed(&others), Ok(none.clone()), "for another process");
        let empty = [("LISTEN_PID", "me"), ("LISTEN_FDS", "0"), ("LISTEN_FDNAMES", "")];
        assert_eq!(passed(&empty), Ok(none.clone()));
        assert_eq!(passed(&empty[..2]), Ok(none));
        let two = [("LISTEN_PID", "me"), ("LISTEN_FDS", "2")];
        assert_eq!(passed(&two), Ok(vec![UNNAMED.to_owned(), UNNAMED.to_owned()]));
        let named = [two[0], two[1], ("LISTEN_FDNAMES", "http:admin")];
        assert_eq!(passed(&named), Ok(vec!["http".to_owned(), "admin".to_owned()]));
    }

    #[test]
    fn c12_an_absurd_number_of_sockets_takes_no_memory() {
        let many = [("LISTEN_PID", "me"), ("LISTEN_FDS", "2147483644")];
        assert_eq!(passed(&many).unwrap().len(), 10, "only as many as were read");
    }

    #[test]
    fn c12_an_invalid_environment_variable_is_quoted_in_the_error() {
        let quoted = [
            (("LISTEN_PID", "myself"), ("LISTEN_FDS", "1"), "LISTEN_PID=\"myself\""),
            (("LISTEN_PID", "me"), ("LISTEN_FDS", "many"), "LISTEN_FDS=\"many\""),
            (("LISTEN_PID", "me"), ("LISTEN_FDS", "-1"), "LISTEN_FDS=\"-1\""),
            (("LISTEN_PID", "me"), ("LISTEN_FDS", "2147483647"), "LISTEN_FDS=\"2147483647\""),
        ];
        for (pid, sockets, words) in quoted {
            let error = passed(&[pid, sockets]).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let names = [("LISTEN_PID", "me"), ("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", "a:b:c")];
        let error = passed(&names).unwrap_err();
        assert!(error.contains("\"a:b:c\"") && error.contains("LISTEN_FDS=2"), "{error}");
    }
}
