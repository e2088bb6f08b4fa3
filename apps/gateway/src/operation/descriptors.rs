//! The limit of file descriptors: each connection takes one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of this process to the one that the system allows. Returns the limit; `None` if there is none.
pub fn raise_descriptor_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        // The kernel allows less than it says, as in some containers.
        Err(_) => limit.current,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g03_the_limit_of_descriptors_is_the_one_that_the_system_allows() {
        let raised = raise_descriptor_limit();
        assert_eq!(raised, getrlimit(Resource::Nofile).current);
        assert_eq!(raised, getrlimit(Resource::Nofile).maximum);
    }
}
