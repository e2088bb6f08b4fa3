//! The scripts that Redis runs, the commands that call them, and the forms of what they write and answer.

pub(super) mod error_reply;
pub(super) mod message;
pub(super) mod reply;

use std::sync::LazyLock;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use waterwheel::codec::RespCommand;

/// Joins the files of a script.
macro_rules! script {
    ($($file:literal)*) => {
        concat!(include_str!("lua/state.lua"), $(include_str!(concat!("lua/", $file, ".lua")),)*)
    };
}

/// A script. Each one runs as a whole: no other command of any gateway comes between its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::redis) enum RedisScript {
    Open,
    Position,
    Publish,
    History,
    Topics,
    Present,
    Beat,
}

impl RedisScript {
    /// All scripts.
    pub(in crate::engine::redis) const ALL: [Self; 7] = [
        Self::Open,
        Self::Position,
        Self::Publish,
        Self::History,
        Self::Topics,
        Self::Present,
        Self::Beat,
    ];

    /// Returns the text.
    pub(in crate::engine::redis) fn text(self) -> &'static str {
        match self {
            Self::Open => script!("open"),
            Self::Position => script!("same_run" "position"),
            Self::Publish => script!("same_run" "evict" "publish"),
            Self::History => script!("same_run" "history"),
            Self::Topics => script!("same_run" "evict" "topics"),
            Self::Present => script!("same_run" "presence" "present"),
            Self::Beat => script!("same_run" "presence" "beat"),
        }
    }

    /// Returns the name by which Redis finds a script that it has: its SHA-1 in hexadecimal digits.
    pub(in crate::engine::redis) fn digest(self) -> &'static str {
        static DIGESTS: LazyLock<[String; 7]> = LazyLock::new(|| {
            RedisScript::ALL.map(|script| {
                let bytes = digest(&SHA1_FOR_LEGACY_USE_ONLY, script.text().as_bytes());
                bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
            })
        });
        &DIGESTS[self as usize]
    }
}

/// The arguments that every call of a script begins with.
#[derive(Clone, Debug)]
pub(in crate::engine::redis) struct ScriptContext {
    /// The key of the state, which names the slot.
    pub(in crate::engine::redis) key: String,
    /// The run of the server.
    pub(in crate::engine::redis) run: String,
    /// True if the server belongs to a cluster.
    pub(in crate::engine::redis) is_cluster: bool,
}

impl ScriptContext {
    /// Returns the command that calls a script. `epoch` is the one to begin if Redis has lost its data.
    pub(in crate::engine::redis) fn command(
        &self,
        script: RedisScript,
        epoch: u32,
        arguments: &[&[u8]],
    ) -> RespCommand {
        let epoch = format!("{epoch:08x}");
        let publish = if self.is_cluster { "SPUBLISH" } else { "PUBLISH" };
        let mut words: Vec<&[u8]> = Vec::with_capacity(arguments.len() + 7);
        words.extend([&b"EVALSHA"[..], script.digest().as_bytes(), b"1", self.key.as_bytes()]);
        words.extend([self.run.as_bytes(), epoch.as_bytes(), publish.as_bytes()]);
        words.extend(arguments);
        RespCommand::new(&words)
    }
}

/// Returns the same call with the text of the script, for a server that has forgotten it.
pub(in crate::engine::redis) fn with_text(
    script: RedisScript,
    command: &RespCommand,
) -> RespCommand {
    let head = [&b"EVAL"[..], script.text().as_bytes()];
    let words: Vec<&[u8]> = head.into_iter().chain(command.iter().skip(2)).collect();
    RespCommand::new(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_scripts_are_called_by_their_digest_or_with_their_text() {
        let context =
            ScriptContext { key: "{p}:meta".to_owned(), run: "r".to_owned(), is_cluster: true };
        let by_digest = context.command(RedisScript::Beat, 0x1f, &[b"node"]);
        let words: Vec<_> = by_digest.iter().map(String::from_utf8_lossy).collect();
        assert_eq!(words[0], "EVALSHA");
        assert_eq!(words[1].len(), 40);
        assert_eq!(words[2..], ["1", "{p}:meta", "r", "0000001f", "SPUBLISH", "node"]);
        let by_text = with_text(RedisScript::Beat, &by_digest);
        assert!(by_text.is("EVAL") && by_text.iter().skip(2).eq(by_digest.iter().skip(2)));
        assert_eq!(&by_text[1], RedisScript::Beat.text().as_bytes());
        for (i, script) in RedisScript::ALL.into_iter().enumerate() {
            assert_eq!(script as usize, i, "the digests are found by the place");
        }
    }
}
