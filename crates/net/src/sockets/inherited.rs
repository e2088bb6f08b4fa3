//! Sockets that the process was started with: socket activation, as systemd and others do it.

use std::env;
use std::io;
use std::iter::repeat_with;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use waterwheel_channel::{Address, Listener};

use crate::address::from_kernel;
use crate::sockets::existing_sockets::{check_listening, existing_listener};
use crate::sys::inherited::{InheritanceClaim, UnclaimableDescriptor};

/// The first descriptor that is passed on; the others follow.
const FIRST_FD: RawFd = 3;

/// What a socket is called that nobody has given a name: as systemd has it.
const UNNAMED: &str = "unknown";

/// A listening socket that the process was started with.
///
/// Whoever starts the process binds the sockets and says in its environment how many there are: `LISTEN_FDS`,
/// for the process `LISTEN_PID`, with `LISTEN_FDNAMES`, if they have names, between colons. So a server can be
/// started when its first client comes, be restarted without refusing anybody, and listen at ports that it
/// may not bind itself.
///
/// ```no_run
/// use waterwheel_channel::{EventLoopGroup, ServerBootstrap};
/// use waterwheel_net::{Auto, Inherited, Tcp};
///
/// let inherited = Inherited::take()?; // First of all, before anything else is opened.
/// let group = EventLoopGroup::builder(Auto).build()?;
/// let bootstrap = ServerBootstrap::new(&group, Tcp);
/// for socket in inherited {
///     println!("{} at {:?}", socket.name(), socket.local_address());
///     let server = bootstrap.serve(socket.into_listener()?).join()?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Inherited {
    name: String,
    fd: OwnedFd,
}

/// Why sockets that the process was started with cannot be taken. Nothing has happened to them then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InheritError {
    /// A variable of the environment makes no sense.
    #[error("{variable}={value:?} in the environment is no number that makes sense")]
    InvalidNumber {
        /// Which one.
        variable: &'static str,
        /// What it says.
        value: String,
    },
    /// There are not as many names as sockets.
    #[error("LISTEN_FDNAMES={names:?} has not a name for each of LISTEN_FDS={sockets}")]
    NameCount {
        /// The names.
        names: String,
        /// How many sockets there are.
        sockets: RawFd,
    },
    /// What was passed on is something else.
    #[error("the inherited descriptor {descriptor} (`{name}`) is no listening socket: {cause}")]
    NotListening {
        /// Its number.
        descriptor: RawFd,
        /// Its name.
        name: String,
        /// What is wrong with it.
        #[source]
        cause: io::Error,
    },
    /// The number is that of a descriptor which this process has opened, and whose owner is somebody else: it
    /// would be closed on exec, so it did not come through one.
    #[error("the descriptor {descriptor} (`{name}`) was not inherited: this process has opened it")]
    NotInherited {
        /// Its number.
        descriptor: RawFd,
        /// Its name.
        name: String,
    },
    /// [`Inherited::take`] was called before, whether it succeeded or not.
    #[error(
        "Inherited::take was called before, and gives the inherited sockets to its first caller"
    )]
    AlreadyTaken,
}

impl Inherited {
    /// Takes the sockets that this process was started with, in order; none, if there are none, or if they
    /// were meant for another process. They are not passed on to programs that this one starts.
    ///
    /// The first call decides, and any other is [`AlreadyTaken`](InheritError::AlreadyTaken): no descriptor gets two owners. It
    /// belongs at the beginning of `main`, because later the numbers could be those of something else. What
    /// Rust code has opened is recognised, and refused; what a C library has opened without `O_CLOEXEC` is not.
    ///
    /// The environment stays as it is: it names this process, so that others do not believe it.
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

    /// Its name; `unknown` if it was given none.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens.
    #[must_use]
    pub fn local_address(&self) -> Option<Address> {
        from_kernel(rustix::net::getsockname(&self.fd).ok()?)
    }

    /// A transport for [`ServerBootstrap::serve`](waterwheel_channel::ServerBootstrap::serve).
    ///
    /// # Errors
    /// As for [`existing_listener`].
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

/// What the environment says.
#[derive(Debug, PartialEq, Eq)]
struct ListenEnvironment {
    /// How many there are. It may be any number: nothing is made for all of them before each was looked at.
    sockets: RawFd,
    /// A name for each, if they have some.
    names: Option<Vec<String>>,
}

impl ListenEnvironment {
    fn from_env(variable: impl Fn(&str) -> Option<String>) -> Result<Self, InheritError> {
        let nothing = ListenEnvironment { sockets: 0, names: None };
        let (Some(pid), Some(sockets)) = (variable("LISTEN_PID"), variable("LISTEN_FDS")) else {
            return Ok(nothing);
        };
        if number::<u32>("LISTEN_PID", &pid)? != std::process::id() {
            return Ok(nothing); // Meant for whoever has started this one.
        }
        let sockets: RawFd = number("LISTEN_FDS", &sockets)?;
        if sockets < 0 || FIRST_FD.checked_add(sockets).is_none() {
            return Err(invalid_number("LISTEN_FDS", &sockets.to_string()));
        }
        // The names of none are an empty text, which would be one name that is empty.
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

    /// The names of the descriptors, in order.
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

/// All of them, or none: what is not in order stays open and as it is, for whoever can make sense of it.
fn take_all(
    passed: ListenEnvironment,
    claim: InheritanceClaim,
) -> Result<Vec<Inherited>, InheritError> {
    let descriptors = passed.descriptors();
    let mut names = passed.names();
    let taken = claim.take(descriptors, |descriptor, found| {
        let name = names.next().unwrap_or_default();
        match found.map(check_listening) {
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
        // More than anybody will be told of.
        Ok(passed.names().take(10).collect())
    }

    #[test]
    fn c12_the_environment_says_which_sockets_a_process_was_started_with() {
        let none: Vec<String> = Vec::new();
        assert_eq!(passed(&[]), Ok(none.clone()));
        assert_eq!(passed(&[("LISTEN_FDS", "2")]), Ok(none.clone()), "for nobody");
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
    fn c12_a_number_of_sockets_that_no_process_has_takes_no_memory() {
        let many = [("LISTEN_PID", "me"), ("LISTEN_FDS", "2147483644")];
        assert_eq!(passed(&many).unwrap().len(), 10, "as many as were looked at");
    }

    #[test]
    fn c12_an_environment_that_makes_no_sense_is_an_error_that_quotes_it() {
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
