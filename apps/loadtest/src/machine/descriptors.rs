//! The limit of file descriptors: a connection needs one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::LoadError;

/// Descriptors for everything but connections: loops, standard streams, files, libraries.
const RESERVE: u64 = 64;

/// Raises the soft limit as far as the hard one, if so many connections need it.
pub(crate) fn raise_limit(connections: usize) -> Result<(), LoadError> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(limit) = needed_limit(connections, current, maximum)? else { return Ok(()) };
    setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum })
        .map_err(|error| LoadError::RaiseDescriptors(limit, error.into()))
}

/// Returns the soft limit to set; `None` if the present one is enough. A limit of `None` is infinite.
fn needed_limit(
    connections: usize,
    soft: Option<u64>,
    hard: Option<u64>,
) -> Result<Option<u64>, LoadError> {
    let needed = connections as u64 + RESERVE;
    if soft.is_none_or(|soft| soft >= needed) {
        return Ok(None);
    }
    match hard {
        Some(hard) if hard < needed => Err(LoadError::Descriptors { connections, needed, hard }),
        Some(hard) => Ok(Some(hard)),
        None => Ok(Some(needed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g09_the_limit_of_descriptors_is_raised_as_far_as_it_may_be() {
        assert_eq!(needed_limit(100, Some(1024), Some(1024)).unwrap(), None);
        assert_eq!(needed_limit(100, None, None).unwrap(), None);
        assert_eq!(needed_limit(15_000, Some(1024), Some(20_000)).unwrap(), Some(20_000));
        assert_eq!(needed_limit(15_000, Some(1024), None).unwrap(), Some(15_064));
        let error = needed_limit(30_000, Some(1024), Some(20_000)).unwrap_err().to_string();
        assert!(error.starts_with("30000 connections need 30064 file descriptors"), "{error}");
        assert!(error.contains("20000") && error.contains("ulimit -Hn"), "{error}");
    }
}
